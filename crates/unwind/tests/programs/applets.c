// A program like busybox: functions behind a table, most of which never return, because they end in functions that
// never return, and so on down to exit. Nothing else tells where they start.

#include <alloca.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEVER __attribute__((noinline, noreturn))

static jmp_buf top;
static volatile int counter;

NEVER static void finish(int status) {
    fflush(NULL);
    exit(status);
}

NEVER static void die(const char *what, int status) {
    fprintf(stderr, "%s: %d\n", what, status);
    finish(status);
}

// Two functions that end in each other until one finishes.
NEVER static void other(int depth, char **words);

NEVER static void one(int depth, char **words) {
    counter += depth;
    if (depth > 3)
        die(words[0], depth);
    other(depth + 1, words);
}

NEVER static void other(int depth, char **words) {
    counter -= depth;
    printf("%s\n", words[depth & 1]);
    one(depth + 1, words);
}

static int applet_pair(int count, char **words) {
    counter = puts(words[0]);
    one(count, words);
}

// setjmp returns by a jump to another function of the C library.
static int applet_loop(int count, char **words) {
    int state = setjmp(top);
    for (;;) {
        char line[64];
        if (state > 3)
            finish(state);
        state += snprintf(line, sizeof line, "%s %d", words[0], count);
        counter += strlen(line);
        puts(line);
    }
}

// Memory of the stack in a loop: sp is restored from the frame or a register.
static int applet_alloca(int count, char **words) {
    for (int i = 0; i < count; i++) {
        char room[i + 20];
        char *more = alloca(count);
        memset(more, i, count);
        snprintf(room, sizeof room, "%d %s", i, words[0]);
        counter += strlen(room) + more[0];
    }
    return counter;
}

// The address of the table of the switch is loaded before the loop.
static int applet_switch(int count, char **words) {
    int sum = 0;
    for (const char *at = words[0]; *at; at++) {
        switch (*at) {
        case 'a': sum += printf("a %d\n", count); break;
        case 'b': sum -= puts("b"); break;
        case 'c': sum ^= getpid(); break;
        case 'd': sum *= getppid(); break;
        case 'e': sum += puts("e"); return sum;
        case 'f': sum = -sum; break;
        case 'g': die(at, sum);
        case 'h': sum = printf("h %d\n", sum); break;
        case 'i': sum += getuid(); break;
        default: counter++;
        }
    }
    finish(sum);
}

typedef int applet(int, char **);
static applet *const volatile applets[] = {applet_pair, applet_loop, applet_alloca, applet_switch};

int main(int count, char **words) {
    finish(applets[count & 3](count, words));
}
