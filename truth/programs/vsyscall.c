/* Asks for the time through the page of legacy system calls, whose calls the kernel emulates. Where the kernel has no
 * such page, it stays in ask. Truth: main, ask, the page. */
#include <stdio.h>
#include <string.h>

#include "spin.h"

typedef long legacy_time(long *seconds);

#define LEGACY_TIME ((legacy_time *)0xffffffffff600400UL)

static int has_page(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int found = 0;

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, "[vsyscall]") != NULL;
	if (maps)
		fclose(maps);
	return found;
}

EXACT long ask(int page)
{
	long now = 0;

	if (page)
		now = LEGACY_TIME(NULL);
	else
		spin(3000);
	NO_TAIL_CALL;
	return now;
}

int main(void)
{
	int page = has_page();

	ready();
	for (;;)
		ask(page);
}
