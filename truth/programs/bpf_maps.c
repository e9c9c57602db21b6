/* Changes a BPF map all the time, in which the kernel runs no program of events on this CPU, or (argument: plain)
 * computes. */
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char value[16 << 10];

static __attribute__((noinline)) void compute(void)
{
	for (volatile int i = 0; i < 100000; i++)
		;
}

int main(int argc, char **argv)
{
	unsigned int key = 1;
	union bpf_attr attr;
	int map;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_HASH;
	attr.key_size = sizeof(key);
	attr.value_size = sizeof(value);
	attr.max_entries = 2;
	map = syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
	if (map < 0) {
		perror("bpf_maps: create a map");
		return 1;
	}
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (unsigned long)&key;
	attr.value = (unsigned long)value;
	puts("ready");
	fflush(stdout);
	for (;;) {
		if (argc > 1 && !strcmp(argv[1], "plain"))
			compute();
		else
			syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr));
	}
}
