/* Loads and unloads a library that lies beside the program. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <dlfcn.h>
#include <libgen.h>
#include <unistd.h>

int main(void)
{
	char path[4096] = "";
	long sum = 0;
	CHECK(readlink("/proc/self/exe", path, sizeof(path) - 40) > 0);
	strcat(dirname(path), "/unharmed-library.so");
	for (long i = 0; i < 300; i++) {
		void *library = dlopen(path, RTLD_NOW);
		CHECK(library);
		long (*work)(long) = (long (*)(long))dlsym(library, "library_work");
		CHECK(work);
		for (int j = 0; j < 20; j++)
			sum += work(i % 100);
		CHECK(!dlclose(library));
		CHECK(!dlopen(path, RTLD_NOW | RTLD_NOLOAD));
	}
	printf("%ld\n", sum);
	return 0;
}
