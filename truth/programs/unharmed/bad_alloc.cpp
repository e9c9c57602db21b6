// Allocations that fail: of operator new with and without nothrow, of arrays, of containers, and of a class with an operator of its own.
#include "unharmed.h"
#include <new>
#include <vector>

struct Own {
	char bytes[100];
	N static void *operator new(size_t size)
	{
		static int count;
		if (++count % 3 == 0)
			throw std::bad_alloc();
		return malloc(size);
	}
	N static void operator delete(void *at) { free(at); }
};

static volatile size_t huge = static_cast<size_t>(1) << 62;

N static int fails()
{
	int failed = 0;
	try {
		static_cast<char *>(::operator new(huge))[0] = 1;
	} catch (const std::bad_alloc &) {
		failed++;
	}
	try {
		(new char[huge])[0] = 1;
	} catch (const std::bad_alloc &) {
		failed++;
	}
	try {
		std::vector<char> many;
		many.reserve(huge);
	} catch (const std::exception &) {
		failed++;
	}
	return failed + (::operator new(huge, std::nothrow) == nullptr);
}

int main()
{
	int failed = 0, own = 0;
	for (int i = 0; i < 1000; i++) {
		failed += fails();
		try {
			delete new Own;
		} catch (const std::bad_alloc &) {
			own++;
		}
		delete[] new long[static_cast<size_t>(i) + 1];
	}
	printf("%d %d\n", failed, own);
}
