// A program whose own global operator new throws, with a handler that gives memory back.
#include "unharmed.h"
#include <new>

static size_t limit = 1000000, used;

N void *operator new(size_t size)
{
	for (;;) {
		if (used + size <= limit) {
			size_t *at = static_cast<size_t *>(malloc(size + 16));
			*at = size;
			used += size;
			return at + 2;
		}
		std::new_handler handler = std::get_new_handler();
		if (!handler)
			throw std::bad_alloc();
		handler();
	}
}

N void operator delete(void *at) noexcept
{
	if (!at)
		return;
	used -= static_cast<size_t *>(at)[-2];
	free(static_cast<size_t *>(at) - 2);
}

void operator delete(void *at, size_t) noexcept { operator delete(at); }

static void more()
{
	limit += 1000;
	std::set_new_handler(nullptr);
}

int main()
{
	int thrown = 0;
	for (int i = 0; i < 2000; i++) {
		limit = 1000000;
		std::set_new_handler(i % 2 ? more : nullptr);
		try {
			char *at = static_cast<char *>(::operator new(1000100));
			at[5] = 1;
			::operator delete(at);
		} catch (const std::bad_alloc &) {
			thrown++;
		}
		delete new int(i);
	}
	printf("%d %zu\n", thrown, used);
}
