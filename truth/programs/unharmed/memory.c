/* What the allocator promises: contents, alignment, sizes, and errno. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <malloc.h>
#include <stdint.h>
#include <unistd.h>

enum { COUNT = 500 };

int main(void)
{
	unsigned char *all[COUNT] = {0};
	size_t sizes[COUNT] = {0};
	unsigned long random = 1, sum = 0;
	for (int round = 0; round < 60000; round++) {
		random = random * 6364136223846793005UL + 1442695040888963407UL;
		int i = (int)(random >> 33) % COUNT;
		size_t size = (random >> 20) % 3000 + 1;
		errno = 77;
		for (size_t j = 0; j < sizes[i]; j += 97)
			CHECK(all[i][j] == (unsigned char)(i + j));
		if (round % 3 == 0) {
			free(all[i]);
			all[i] = malloc(size);
		} else if (round % 3 == 1) {
			size_t kept = sizes[i] < size ? sizes[i] : size;
			all[i] = realloc(all[i], size);
			for (size_t j = 0; j < kept; j += 97)
				CHECK(all[i][j] == (unsigned char)(i + j));
		} else {
			free(all[i]);
			CHECK(!posix_memalign((void **)&all[i], 256, size) && (uintptr_t)all[i] % 256 == 0);
		}
		CHECK(all[i] && malloc_usable_size(all[i]) >= size && errno == 77);
		for (size_t j = 0; j < size; j++)
			all[i][j] = (unsigned char)(i + j);
		sizes[i] = size;
		sum += size;
	}
	errno = 0;
	CHECK(!malloc((size_t)1 << 62) && errno == ENOMEM);
	CHECK(!realloc(all[0], (size_t)1 << 62));
	void *aligned = aligned_alloc(4096, 8192), *none = calloc((size_t)1 << 40, (size_t)1 << 40);
	CHECK(aligned && !none && (uintptr_t)aligned % 4096 == 0);
	free(aligned);
	for (int i = 0; i < COUNT; i++)
		free(all[i]);
	printf("%lu\n", sum);
	return 0;
}
