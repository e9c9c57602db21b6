/* Sleeps until the runner's line, then becomes another program.
 * usage: execer PROGRAM ARGS…
 * Truth: the chain of PROGRAM, preceded by the loader at work. */
#include "truth.h"

int main(int argc, char **argv)
{
	(void)argc;
	ready();
	wait_for_go();
	execv(argv[1], argv + 1);
	return 1;
}
