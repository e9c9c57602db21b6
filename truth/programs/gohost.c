/*
 * A program in C that loads a library written in Go (gocgo.go): `gohost LIBRARY KIND...`. The first kind, `call`, calls into Go
 * from main without an end.
 * Truth: as in gocgo.go; for `call`: main, call, and Go functions.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long work(unsigned long);

static __attribute__((noinline)) unsigned long call(work *go_work, unsigned long x)
{
	x = go_work(x) + 1;
	__asm__ volatile("" : "+r"(x));
	return x;
}

int main(int argc, char **argv)
{
	void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*go_start)(const char *) = library ? (void (*)(const char *))dlsym(library, "go_start") : NULL;
	work *go_work = library ? (work *)dlsym(library, "go_work") : NULL;
	unsigned long x = 1;

	if (!go_start || !go_work) {
		fprintf(stderr, "usage: gohost LIBRARY KIND...\n");
		return 1;
	}
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], "call"))
			go_start(argv[i]);
	usleep(200000);
	puts("ready");
	fflush(stdout);
	while (!strcmp(argv[2], "call"))
		x = call(go_work, x);
	for (;;)
		pause();
}
