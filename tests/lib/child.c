// SPDX-License-Identifier: GPL-2.0-or-later
/* See child.h. */
#include "lib/child.h"
#include "lib/case.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void child_start(struct child *c, void (*run)(int sock, void *arg), void *arg)
{
	pid_t parent = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		fail_case("make a socket pair");
	fflush(stdout);
	c->pid = fork();
	if (c->pid < 0)
		fail_case("fork");
	if (!c->pid) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
			_exit(1);
		setlinebuf(stdout);
		close(ends[0]);
		run(ends[1], arg);
		fflush(stdout);
		_exit(0);
	}
	close(ends[1]);
	c->sock = ends[0];
}

/* The wait status. */
static int reap(struct child *c)
{
	int status;

	if (waitpid(c->pid, &status, 0) != c->pid)
		fail_case("wait for a child");
	close(c->sock);
	*c = (struct child){};
	return status;
}

int child_wait(struct child *c)
{
	int status = reap(c);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool child_kill(struct child *c)
{
	int status;

	kill(c->pid, SIGKILL);
	status = reap(c);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

void child_close(struct child *c)
{
	if (c->pid > 0)
		child_kill(c);
}

void tell(int sock, const void *what, size_t size)
{
	errno = 0;
	if (send(sock, what, size, MSG_NOSIGNAL) != size)
		fail_case("the other process is gone");
}

void ask(int sock, void *what, size_t size)
{
	errno = 0;
	if (recv(sock, what, size, MSG_WAITALL) != size)
		fail_case("the other process is gone");
}

void go_on(int sock)
{
	tell(sock, "g", 1);
}

void wait_to_go_on(int sock)
{
	char byte;

	ask(sock, &byte, 1);
}

/* The message has one byte, and room for one fd beside it. */
struct fd_message {
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov;
	struct msghdr hdr;
};

static void fd_message(struct fd_message *m)
{
	memset(m, 0, sizeof(*m));
	m->iov = (struct iovec){ .iov_base = &m->byte, .iov_len = 1 };
	m->hdr = (struct msghdr){
		.msg_iov = &m->iov, .msg_iovlen = 1, .msg_control = m->control,
		.msg_controllen = sizeof(m->control),
	};
}

void tell_fd(int sock, int fd)
{
	struct fd_message m;
	struct cmsghdr *c;

	fd_message(&m);
	c = CMSG_FIRSTHDR(&m.hdr);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	if (sendmsg(sock, &m.hdr, MSG_NOSIGNAL) != 1)
		fail_case("pass an fd on");
}

int ask_fd(int sock)
{
	struct fd_message m;
	int fd;

	fd_message(&m);
	if (recvmsg(sock, &m.hdr, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&m.hdr))
		fail_case("no fd was passed on");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m.hdr)), sizeof(fd));
	return fd;
}
