/* A server and clients with epoll, timers and events as files. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int pairs[8][2];

static void *client(void *number)
{
	long sum = 0;
	for (long i = 0; i < 500; i++) {
		long sent = i * 8 + (long)number, got = 0;
		CHECK(write(pairs[(long)number][1], &sent, sizeof(sent)) == sizeof(sent));
		CHECK(read(pairs[(long)number][1], &got, sizeof(got)) == sizeof(got));
		CHECK(got == sent + 1);
		sum += got;
	}
	close(pairs[(long)number][1]);
	return (void *)sum;
}

int main(void)
{
	pthread_t threads[8];
	int poll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0), event = eventfd(5, 0), open = 8;
	uint64_t expired = 0, value = 0;
	long sum = 0;
	struct itimerspec each = {{0, 1000000}, {0, 1000000}};
	for (long i = 0; i < 8; i++) {
		CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pairs[i]));
		struct epoll_event wanted = {EPOLLIN, {.fd = pairs[i][0]}};
		CHECK(!epoll_ctl(poll, EPOLL_CTL_ADD, pairs[i][0], &wanted));
		CHECK(!pthread_create(&threads[i], NULL, client, (void *)i));
	}
	while (open) {
		struct epoll_event ready[8];
		int count = epoll_wait(poll, ready, 8, -1);
		for (int i = 0; i < count; i++) {
			long got;
			ssize_t size = read(ready[i].data.fd, &got, sizeof(got));
			if (size <= 0) {
				close(ready[i].data.fd);
				open--;
				continue;
			}
			got++;
			CHECK(write(ready[i].data.fd, &got, sizeof(got)) == sizeof(got));
		}
	}
	for (int i = 0; i < 8; i++) {
		void *result;
		CHECK(!pthread_join(threads[i], &result));
		sum += (long)result;
	}
	CHECK(!timerfd_settime(timer, 0, &each, NULL));
	for (int i = 0; i < 20; i++)
		CHECK(read(timer, &expired, 8) == 8 && expired >= 1);
	CHECK(read(event, &value, 8) == 8);
	printf("%ld %lu\n", sum, (unsigned long)value);
	return 0;
}
