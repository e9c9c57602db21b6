/* A function that calls another one on a stack of its own, which lies above that of the thread or below it. Unwind
 * information finds the caller's frame by the frame pointer.
 * Truth: thread start, work, switching, on_own_stack, spin. */
#include <pthread.h>
#include <sys/mman.h>

#include "spin.h"
#include "switching.h"

#define SIZE (256 << 10)

EXACT void on_own_stack(long rounds)
{
	spin(rounds);
	NO_TAIL_CALL;
}

SWITCHING(on_own_stack);

static char *above, *below;

EXACT void *work(void *unused)
{
	for (;;) {
		switching(3000, above + SIZE);
		switching(3000, below + SIZE);
	}
	return unused;
}

int main(void)
{
	char *middle;
	pthread_attr_t attributes;
	pthread_t thread;

	above = mmap(NULL, 3 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (above == MAP_FAILED)
		return 1;
	below = above;
	middle = above + SIZE;
	above += 2 * SIZE;
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, middle, SIZE);
	if (pthread_create(&thread, &attributes, work, NULL) != 0)
		return 1;
	ready();
	pthread_join(thread, NULL);
}
