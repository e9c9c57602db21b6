/* A program in which tests call functions. It checks that nothing of it changes. Modes: spin, sleep, poll, futex. Ends at SIGTERM: 0 if all is
 * well, else a number that tells what changed. Prints the signals that it got, and calls of `give_back`. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t over;
volatile long usual, queued, given_back;


static void on_signal(int number)
{
    if (number == SIGTERM)
        over = 1;
    else if (number == SIGUSR1)
        usual++;
    else
        queued++;
}

/* Changes everything that a function may change. */
long probe(long a, long b, long c)
{
    char deep[20000];
    memset(deep, (int)a, sizeof deep);
    __asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n vmovdqa %%ymm0, %%ymm1\n vmovdqa %%ymm0, %%ymm15" ::"r"(deep)
                     : "xmm0", "xmm1", "xmm15", "memory");
    errno = 77;
    return a * 100 + b * 10 + c;
}

long give_back(long count)
{
    given_back += count;
    probe(9, 9, 9);
    return 0;
}

long slow(long ms)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
    return probe(1, 1, 1);
}

long fault(void) { return *(volatile long *)8; }

static int spin(void)
{
    uint64_t before[8] = {1, 2, 3, 4, 5, 6, 7, 8}, after[8] = {0}, mark = 0x123456789abcdef0, sum = 0;
    errno = 5;
    __asm__ volatile("movq $0x55aa55aa, -8(%%rsp)\n"
                     "vmovdqu (%2), %%ymm1\n vmovdqu 32(%2), %%ymm15\n"
                     "movl $200000, %%ecx\n"
                     "1: addq %1, %0\n xorq %%rcx, %0\n decl %%ecx\n jnz 1b\n"
                     "vmovdqu %%ymm1, (%3)\n vmovdqu %%ymm15, 32(%3)\n"
                     "cmpq $0x55aa55aa, -8(%%rsp)\n je 2f\n incq (%3)\n 2:\n"
                     : "+r"(sum)
                     : "r"(mark), "r"(before), "r"(after)
                     : "rcx", "cc", "memory", "xmm1", "xmm15");
    static uint64_t expected;
    if (!expected)
        expected = sum;
    return memcmp(before, after, sizeof before) ? 3 : sum != expected ? 4 : errno != 5 ? 5 : 0;
}

static int wait(const char *mode)
{
    struct timespec begin, end, time = {0, 30000000};
    static uint32_t word;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    long result = !strcmp(mode, "sleep")  ? syscall(SYS_nanosleep, &time, NULL)
                  : !strcmp(mode, "poll") ? poll(NULL, 0, 30)
                                          : syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, NULL, NULL, ~0);
    int error = errno;
    if (over)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    long ms = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
    return result < 0 && error == EINTR && !usual && !queued ? 6 : result >= 0 && ms < 29 ? 7 : 0;
}

int main(int count, char **words)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    puts("ready");
    fflush(stdout);
    int changed = 0, errno_changed = 0;
    while (!over && !changed && count > 1) {
        changed = strcmp(words[1], "spin") ? wait(words[1]) : spin();
        if (changed == 5) {
            errno_changed = 5;
            changed = 0;
        }
    }
    printf("%ld %ld %ld\n", usual, queued, given_back);
    return changed ? changed : errno_changed;
}
