// SPDX-License-Identifier: GPL-2.0-or-later
#include "lib/importer.h"
#include "lib/case.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int importer_open(void)
{
	int importer = open("/dev/mrfd_importer", O_RDWR | O_CLOEXEC);

	if (importer < 0)
		fail_case("/dev/mrfd_importer: scripts/importer builds its module");
	return importer;
}

int importer_does(int importer, const char *fmt, ...)
{
	char line[80];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	return write(importer, line, strlen(line)) < 0 ? errno : 0;
}

void importer_read(int importer, void *to, size_t size)
{
	size_t at = 0;
	ssize_t n;

	while (at < size && (n = pread(importer, (char *)to + at, size - at, at)) > 0)
		at += n;
	if (at < size)
		fail_case("read at %zu of what is imported", at);
}
