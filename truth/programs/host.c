/* Code that is loaded by dlopen.
 * usage: host LIBRARY early|late|thread [delete]
 * early: loads it before "ready"; late: after the runner's line; thread: after the line, in a second thread while the
 * first one waits. With "delete" it deletes the library's file as soon as the library is loaded.
 * Truth: (main | thread start, load_and_run), then load and the loader, or call and the library's plugin_entry,
 * plugin_middle, plugin_burn, spin. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "truth.h"

static const char *library;
static int delete_it;

EXACT long call(long (*entry)(long))
{
	long result = entry(3000);
	NO_TAIL_CALL;
	return result;
}

EXACT long (*load(void))(long)
{
	void *handle = dlopen(library, RTLD_NOW);
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	if (delete_it)
		unlink(library);
	return (long (*)(long))dlsym(handle, "plugin_entry");
}

EXACT void *load_and_run(void *unused)
{
	long (*entry)(long) = load();
	for (;;)
		call(entry);
	return unused;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[2] : "early";
	long (*entry)(long);
	pthread_t thread;

	library = argv[1];
	delete_it = argc > 3;
	if (strcmp(mode, "early") == 0) {
		entry = load();
		ready();
	} else {
		ready();
		wait_for_go();
		if (strcmp(mode, "thread") == 0) {
			pthread_create(&thread, NULL, load_and_run, NULL);
			pthread_join(thread, NULL);
		}
		entry = load();
	}
	for (;;)
		call(entry);
}
