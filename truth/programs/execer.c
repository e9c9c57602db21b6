/* Sleeps until the runner's line, then executes another program.
 * usage: execer PROGRAM ARGS…
 * Truth: the call chains of PROGRAM; before them, those of the dynamic loader. */
#include "truth.h"

int main(int argc, char **argv)
{
	(void)argc;
	ready();
	wait_for_go();
	execv(argv[1], argv + 1);
	return 1;
}
