// SPDX-License-Identifier: GPL-2.0-or-later
/* See guests.h. */
#include "lib/guests.h"
#include "lib/case.h"
#include "lib/clock.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 7300

bool is_guest0(void)
{
	return !strcmp(getenv("MRFD_GUEST") ?: "", "0");
}

static struct sockaddr_in guest0_address(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	inet_pton(AF_INET, "10.0.0.1", &a.sin_addr);
	return a;
}

int guest0_listens(int backlog)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = guest0_address();

	if (bind(fd, (void *)&a, sizeof(a)) || listen(fd, backlog))
		fail_case("listen");
	return fd;
}

int guest0_accepts(int listens)
{
	int fd = accept4(listens, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		fail_case("accept");
	return fd;
}

int guest1_connects(void)
{
	struct sockaddr_in a = guest0_address();
	double end = deadline(20);

	while (now() < end) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (!connect(fd, (void *)&a, sizeof(a)))
			return fd;
		close(fd);
		usleep(100000);
	}
	fail_case("guest 0 does not answer");
}

void say(int fd, const void *p, size_t n)
{
	if (send(fd, p, n, MSG_NOSIGNAL) != (ssize_t)n)
		fail_case("the other guest does not listen");
}

void hear(int fd, void *p, size_t n)
{
	errno = 0;
	if (recv(fd, p, n, MSG_WAITALL) != (ssize_t)n)
		fail_case("the other guest has ended");
}
