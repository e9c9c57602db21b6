/* Children by vfork, which work in the memory and on the stack of their parent.
 * Truth: main, bear, short_life, spin; the parent waits in vfork. */
#include <sys/wait.h>

#include "spin.h"

EXACT void short_life(void)
{
	for (int i = 0; i < 3000; i++)
		spin(3000);
	NO_TAIL_CALL;
}

EXACT void bear(void)
{
	pid_t child = vfork();

	if (child == 0) {
		short_life();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	NO_TAIL_CALL;
}

int main(void)
{
	ready();
	for (;;)
		bear();
}
