// Generators of C++20, and exceptions out of them.
#include "unharmed.h"
#include <coroutine>
#include <exception>
#include <stdexcept>
#include <utility>

struct Generator {
	struct promise_type {
		long value = 0;
		std::exception_ptr error;
		Generator get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
		std::suspend_always initial_suspend() { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		std::suspend_always yield_value(long next)
		{
			value = next;
			return {};
		}
		void return_void() {}
		void unhandled_exception() { error = std::current_exception(); }
	};

	std::coroutine_handle<promise_type> handle;
	Generator(std::coroutine_handle<promise_type> of) : handle(of) {}
	Generator(Generator &&other) : handle(std::exchange(other.handle, {})) {}
	~Generator()
	{
		if (handle)
			handle.destroy();
	}

	N bool next()
	{
		handle.resume();
		if (handle.promise().error)
			std::rethrow_exception(handle.promise().error);
		return !handle.done();
	}
};

static Generator numbers(long count)
{
	for (long i = 0; i < count; i++)
		co_yield i * i;
	if (count % 2)
		throw std::runtime_error("odd");
}

int main()
{
	long sum = 0, thrown = 0;
	for (long i = 0; i < 3000; i++) {
		Generator generator = numbers(i % 30);
		try {
			while (generator.next())
				sum += generator.handle.promise().value;
		} catch (const std::runtime_error &) {
			thrown++;
		}
	}
	printf("%ld %ld\n", sum, thrown);
}
