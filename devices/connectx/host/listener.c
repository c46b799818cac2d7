// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The socket of QEMU for a model, or of the models for a fabric.  Who may connect can have
 * the other end write where he says, or send to a guest: so it is the user's alone.
 *
 * Nothing is removed but a socket at which nobody listens: not another kind of file, and
 * not the socket of a process that runs.
 */
#define _GNU_SOURCE
#include "listener.h"
#include "trace.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Whether somebody listens at the address.  A datagram socket cannot connect to a stream
 * socket, so that asking is not taken for a client; but a dead one refuses in its own way.
 */
static bool is_live(const struct sockaddr_un *addr)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool dead;

	if (fd < 0)
		return true;
	dead = connect(fd, (const void *)addr, sizeof(*addr)) && errno == ECONNREFUSED;
	close(fd);
	return !dead;
}

/* Remove what an earlier run left at the path.  false: it is none of ours. */
static bool make_room(const struct sockaddr_un *addr)
{
	const char *path = addr->sun_path;
	struct stat st;

	if (lstat(path, &st))
		return true;	/* bind() says why, if there is anything to say */
	if (!S_ISSOCK(st.st_mode)) {
		note("--socket %s: this exists and is not a socket; give another path", path);
		return false;
	}
	if (is_live(addr)) {
		note("--socket %s: somebody listens there, or it cannot be asked; end that "
		     "process or give another path", path);
		return false;
	}
	if (unlink(path)) {
		note("--socket %s: the socket that is left there cannot be removed: %s", path,
		     strerror(errno));
		return false;
	}
	return true;
}

/* The mask makes the socket one of this user only from the moment it is there. */
static int bind_private(int fd, const struct sockaddr_un *addr)
{
	mode_t mask = umask(0077);
	int ret = bind(fd, (const void *)addr, sizeof(*addr));

	umask(mask);
	return ret;
}

int listener_open(const char *path, int backlog)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(addr.sun_path)) {
		note("--socket %s: a socket's path has up to %zu bytes; take a shorter one, or "
		     "a relative one", path, sizeof(addr.sun_path) - 1);
		return -1;
	}
	strcpy(addr.sun_path, path);
	if (!make_room(&addr))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		note("a socket cannot be made: %s", strerror(errno));
		return -1;
	}
	if (bind_private(fd, &addr)) {
		note("--socket %s: %s; does its directory exist?", path, strerror(errno));
		close(fd);
		return -1;
	}
	if (listen(fd, backlog)) {
		note("--socket %s: listen: %s", path, strerror(errno));
		close(fd);
		unlink(path);
		return -1;
	}
	return fd;
}
