/*
 * A program in C that looks like CPython 3.12 and lies. usage: fake circle|garbage|moving
 * circle: two frames that call each other, of a function whose name has a million characters.
 * garbage: a frame whose words are random, and random again at each turn.
 * moving: a thread changes the frames and the function, and unmaps their memory, while the other one runs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WORD(base, offset) (*(volatile uint64_t *)((char *)(base) + (offset)))

enum { NAME = 1000000, MEMORY = 1 << 21, FRAME = 0x100, CODE = 0x1000, TEXT = 0x2000 };

#ifndef VERSION
#define VERSION 0x030c01f0
#endif

const unsigned long Py_Version = VERSION;
char _PyRuntime[4096] __attribute__((aligned(16)));
char PyCode_Type[64];
static char interpreter[4096], state[4096];
static void *cframe[4];
static char *memory;
static volatile uint64_t turns;

static uint64_t any(void)
{
	static _Thread_local uint64_t seed = 88172645463325252ull;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

__attribute__((noinline)) void work(void)
{
	for (int i = 0; i < 100000; i++)
		turns++;
}

static void put_text(char *at, uint64_t length, char letter)
{
	WORD(at, 16) = length;
	WORD(at, 32) = (1 | 1 << 3 | 1 << 4) << 2;
	memset(at + 40, letter, length);
}

static void put_code(char *at)
{
	WORD(at, 68) = 7;
	WORD(at, 112) = (uint64_t)memory + TEXT;
	WORD(at, 128) = (uint64_t)memory + TEXT;
	WORD(at, 136) = (uint64_t)memory + TEXT;
}

static void put_frame(char *at, char *previous)
{
	WORD(at, 0) = (uint64_t)memory + CODE;
	WORD(at, 8) = (uint64_t)previous;
	WORD(at, 56) = (uint64_t)memory + CODE + 192;
	WORD(at, 64) = 0;
}

static void build(void)
{
	put_text(memory + TEXT, NAME, 'A');
	put_code(memory + CODE);
	put_frame(memory + FRAME, memory + 2 * FRAME);
	put_frame(memory + 2 * FRAME, memory + FRAME);
}

static void *move(void *unused)
{
	for (;;) {
		switch (any() % 4) {
		case 0:
			mmap(memory, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			build();
			break;
		case 1:
			mprotect(memory + CODE, MEMORY - CODE, PROT_NONE);
			break;
		case 2:
			mmap(memory, MEMORY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			break;
		default:
			cframe[0] = memory + any() % MEMORY;
		}
		for (volatile int i = 0; i < 100000; i++)
			;
		cframe[0] = memory + FRAME;
	}
	return unused;
}

__attribute__((noinline)) void _PyEval_EvalFrameDefault(const char *what)
{
	for (;;) {
		if (!strcmp(what, "garbage"))
			for (int i = 0; i < 512; i++)
				WORD(memory, 8 * i) = any() % 3 ? (uint64_t)memory + any() % 4096 : any();
		work();
	}
}

const char *Py_GetVersion(void)
{
	return "none";
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "circle";
	pthread_key_t key;
	pthread_t thread;

	memory = mmap(0, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	build();
	cframe[0] = memory + FRAME;
	WORD(state, 16) = (uint64_t)interpreter;
	WORD(state, 56) = (uint64_t)cframe;
	WORD(state, 136) = (uint64_t)pthread_self();
	WORD(interpreter, 72) = (uint64_t)state;
	pthread_key_create(&key, 0);
	pthread_setspecific(key, state);
	WORD(_PyRuntime, 40) = (uint64_t)interpreter;
	if (!strcmp(what, "moving"))
		pthread_create(&thread, 0, move, 0);
	puts("ready");
	fflush(stdout);
	_PyEval_EvalFrameDefault(what);
	return 0;
}
