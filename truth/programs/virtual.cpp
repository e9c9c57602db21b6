// Virtual calls, templates, multiple inheritance (thunks) and lambdas behind std::function.
// Truth: main, drive, Outer::visit, Middle::visit, Inner::visit (through a thunk), apply<long>, its lambda, spin.
#include <functional>

#include "spin.h"

struct Visitor {
	virtual ~Visitor() = default;
	virtual long visit(long n) = 0;
};
struct Padding {
	virtual ~Padding() = default;
	virtual long pad() { return 1; }
	long weight = 1;
};

template <typename T> EXACT T apply(const std::function<T(T)> &f, T value)
{
	T result = f(value);
	NO_TAIL_CALL;
	return result;
}

struct Inner : Padding, Visitor { // Visitor is the second base: calls through it go through a thunk
	EXACT long visit(long n) override
	{
		long result = apply<long>([](long rounds) { long r = spin(rounds); NO_TAIL_CALL; return r; }, n + weight);
		NO_TAIL_CALL;
		return result;
	}
};
struct Middle : Visitor {
	Visitor *next;
	explicit Middle(Visitor *n) : next(n) {}
	EXACT long visit(long n) override
	{
		long result = next->visit(n);
		NO_TAIL_CALL;
		return result + 1;
	}
};
struct Outer : Visitor {
	Visitor *next;
	explicit Outer(Visitor *n) : next(n) {}
	EXACT long visit(long n) override
	{
		char buffer[64];
		__asm__ volatile("" ::"r"(buffer) : "memory");
		return next->visit(n) + buffer[0] * 0;
	}
};

EXACT long drive(Visitor *v)
{
	long result = v->visit(3000);
	NO_TAIL_CALL;
	return result;
}

int main()
{
	Inner inner;
	Middle middle(&inner);
	Outer outer(&middle);
	Visitor *volatile entry = &outer;
	ready();
	for (;;)
		drive(entry);
}
