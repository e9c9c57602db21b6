// Exceptions through frames with destructors, also from a thread, and one that nobody catches in a child.
#include "unharmed.h"
#include <csignal>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static thread_local int destroyed;

struct Guard {
	~Guard() { destroyed++; }
};

N static int thrower(int depth, int value)
{
	Guard guard;
	std::string text(static_cast<size_t>(depth) + 40, 'x');
	if (!depth)
		throw std::runtime_error(text + std::to_string(value));
	return thrower(depth - 1, value) + static_cast<int>(text.size());
}

N static int caught(int value)
{
	try {
		return thrower(value % 8, value);
	} catch (const std::runtime_error &error) {
		return static_cast<int>(strlen(error.what()));
	}
}

static long run()
{
	long sum = 0;
	for (int i = 0; i < 3000; i++)
		sum += caught(i);
	return sum;
}

int main()
{
	long own = run(), other = 0;
	std::thread thread([&] { other = run(); });
	thread.join();
	printf("%ld %ld %d\n", own, other, destroyed);
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		close(2);
		thrower(3, 1);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	return 7;
}
