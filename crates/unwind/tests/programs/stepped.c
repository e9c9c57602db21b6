/* Runs its own code instruction by instruction and writes, at each, registers and stack to standard output. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES 8192
#define RED_ZONE 128 /* belongs to the function, below its stack pointer */

struct step {
    uint64_t registers[17]; /* by DWARF number */
    uint8_t stack[RED_ZONE + STACK_BYTES];
};

static struct step step;
static int every = 1, count;

static void put(const void *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(1, data, size);
        if (n <= 0)
            _exit(9);
        data = (const char *)data + n;
        size -= n;
    }
}

static void trapped(int signal, siginfo_t *info, void *context)
{
    static const int order[17] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                   REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };
    const ucontext_t *uc = context;

    (void)signal, (void)info;
    if (count++ % every)
        return;
    for (int i = 0; i < 17; i++)
        step.registers[i] = uc->uc_mcontext.gregs[order[i]];
    /* The arguments and the environment above main are more than that. */
    memcpy(step.stack, (const char *)step.registers[7] - RED_ZONE, sizeof step.stack);
    put(&step, sizeof step);
}

static void maps(void)
{
    static char text[1 << 16];
    FILE *file = fopen("/proc/self/maps", "r");
    uint64_t size = file ? fread(text, 1, sizeof text, file) : 0;

    put(&size, sizeof size);
    put(text, size);
}

#define TRAP_ON() __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc")
#define TRAP_OFF() __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc")

/* A function that realigns its stack, and callers with frame pointers. */
#define APART __attribute__((noinline, noclone))

APART static long innermost(volatile char *bytes)
{
    return bytes[0] + 1;
}

APART static long realigned(long x)
{
    _Alignas(64) volatile char bytes[64];
    volatile char *more = __builtin_alloca((x & 15) + 16);

    bytes[0] = (char)x;
    more[0] = 1;
    return innermost(bytes) + innermost(more) + x;
}

APART static long inner(long x)
{
    return realigned(x) + 1;
}

APART static long outer(long x)
{
    return inner(x) + 1;
}

int main(int argc, char **argv)
{
    static char alternate[1 << 16];
    stack_t on = { .ss_sp = alternate, .ss_size = sizeof alternate };
    struct sigaction action = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    if (argc < 3 || setenv("ROOM", "stack", 1))
        return 2;
    every = atoi(argv[2]);
    maps();
    sigaltstack(&on, 0);
    sigaction(SIGTRAP, &action, 0);
    if (!strcmp(argv[1], "lazy")) {
        TRAP_ON();
        /* Never called before: the stub goes to the resolver. */
        int bytes = getpagesize();
        TRAP_OFF();
        return bytes < 0;
    }
    if (!strcmp(argv[1], "realigned")) {
        TRAP_ON();
        long sum = outer(argc);
        TRAP_OFF();
        return sum == 0;
    }
    pid_t child;
    TRAP_ON();
    child = vfork();
    if (!child)
        _exit(0);
    TRAP_OFF();
    return waitpid(child, 0, 0) != child;
}
