/* One USDT probe at three sites whose first argument has a type and a size of its own at each. Each site has a counter that the kernel raises while
 * the probe is used. Prints how often each was passed with its counter raised. */
#include <stdio.h>
#include <stdlib.h>

#define SITE(COUNTER, ARGUMENTS, ...) \
	asm volatile("990: nop\n" \
		     ".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
		     "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " COUNTER "\n" \
		     ".asciz \"shop\"\n.asciz \"sale\"\n.asciz \"" ARGUMENTS "\"\n994: .balign 4\n.popsection\n" \
		     ".ifndef _.stapsdt.base\n.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
		     ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n.popsection\n.endif\n" \
		     ::__VA_ARGS__)
#define COUNTER(NAME) volatile unsigned short NAME __attribute__((section(".probes"), used, visibility("hidden")))

COUNTER(counter_one);
COUNTER(counter_two);
COUNTER(counter_three);
static int hits[3];

__attribute__((noinline)) static void one(int value)
{
	if (counter_one) {
		hits[0]++;
		SITE("counter_one", "-4@%0 8@$11", "r"(value));
	}
}

__attribute__((noinline)) static void two(short value)
{
	volatile short place[4] = {0, 0, value, 0};

	if (counter_two) {
		hits[1]++;
		SITE("counter_two", "-2@%0 8@$22", "m"(place[2]));
	}
}

__attribute__((noinline)) static void three(unsigned char value)
{
	if (counter_three) {
		hits[2]++;
		SITE("counter_three", "1@%b0 8@$33", "q"(value));
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100;

	for (int i = 0; i < rounds; i++) {
		one(i - 50);
		two(-i);
		three(200 + i % 50);
	}
	printf("hits %d %d %d\n", hits[0], hits[1], hits[2]);
	return 0;
}
