/* Code that a program generates: a function with a frame pointer that calls another one. */
#ifndef GENERATED_H
#define GENERATED_H

#include <string.h>

/* push rbp; mov rbp, rsp; mov rax, TARGET; call rax; pop rbp; ret */
static unsigned char *emit(unsigned char *at, const void *target)
{
	static const unsigned char head[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8 }, tail[] = { 0xff, 0xd0, 0x5d, 0xc3 };
	memcpy(at, head, sizeof(head));
	memcpy(at + 6, &target, 8);
	memcpy(at + 14, tail, sizeof(tail));
	return at + 18;
}

#endif
