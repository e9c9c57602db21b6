/* Gives its rights away and goes on: identities, capabilities, and that it can no longer be dumped. */
#include "unharmed.h"
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void)
{
	for (int i = 0; i < 20000; i++)
		free(malloc(50));
	if (!geteuid()) {
		CHECK(!setgroups(0, NULL) && !setgid(65534) && !setuid(65534));
		CHECK(setuid(0) == -1 && errno == EPERM);
		CHECK(prctl(PR_GET_DUMPABLE) != 1);
	}
	CHECK(!prctl(PR_SET_DUMPABLE, 0));
	for (int i = 0; i < 200000; i++)
		free(malloc(50));
	printf("%d %d\n", getuid() == geteuid(), prctl(PR_GET_DUMPABLE));
	return 0;
}
