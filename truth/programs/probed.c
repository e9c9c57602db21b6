/* Functions whose entries and returns the kernel probes (uprobes), as bpftrace and perf probe do. The program probes
 * itself, which needs root. The first instruction of `outer` cannot be emulated by the kernel, so it runs as a copy.
 * Truth: main, outer, tail (which outer jumps to), inner up to nine times, spin. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "spin.h"

extern char __executable_start[];

/* Probes the entry of a function, or with `at_return` its return. */
static void probe(unsigned long function, int at_return)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .sample_period = 1 };
	FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	unsigned int number;

	if (!type || fscanf(type, "%u", &number) != 1)
		_exit(1);
	fclose(type);
	attr.type = number;
	attr.config = (unsigned long)at_return;
	attr.uprobe_path = (unsigned long)"/proc/self/exe";
	/* Link-time addresses of a position-independent program begin with 0, and the text is mapped where they say. */
	attr.probe_offset = function - (unsigned long)__executable_start;
	if (syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0) {
		perror("perf_event_open");
		_exit(1);
	}
}

EXACT long inner(long depth)
{
	long result = depth ? inner(depth - 1) : spin(3000);
	NO_TAIL_CALL;
	return result;
}

EXACT long tail(long depth)
{
	long result = inner(depth);
	NO_TAIL_CALL;
	return result;
}

/* lahf is not emulated. */
EXACT long outer(long depth)
{
	__asm__ volatile("lahf" ::: "rax");
	return tail(depth);
}

int main(void)
{
	probe((unsigned long)outer, 0);
	probe((unsigned long)outer, 1);
	probe((unsigned long)tail, 1);
	probe((unsigned long)inner, 1);
	ready();
	for (long depth = 0;; depth = (depth + 1) % 9) {
		outer(depth);
		NO_TAIL_CALL;
	}
}
