/* Machine code that the program writes, runs, changes and unmaps, and that is never at the same place twice. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <sys/mman.h>

int main(void)
{
	long sum = 0;
	for (int i = 0; i < 3000; i++) {
		unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(code != MAP_FAILED);
#ifdef __x86_64__
		/* mov eax, i; ret */
		memcpy(code, "\xb8", 1);
		memcpy(code + 1, &i, 4);
		code[5] = 0xc3;
#else
		/* mov w0, #i; ret */
		unsigned words[2] = {0x52800000u | (unsigned)i << 5, 0xd65f03c0u};
		memcpy(code, words, sizeof(words));
#endif
		CHECK(!mprotect(code, 4096, PROT_READ | PROT_EXEC));
		__builtin___clear_cache((char *)code, (char *)code + 8);
		sum += ((int (*)(void))code)();
		CHECK(!munmap(code, 4096));
	}
	printf("%ld\n", sum);
	return 0;
}
