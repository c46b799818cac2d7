// SPDX-License-Identifier: GPL-2.0-or-later
#include "lib/stands.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What /proc says of a thread in this FILE, each of its lines with TITLE before it. */
static void say(const char *process, const char *thread, const char *file, const char *title)
{
	char path[NAME_MAX * 3 + 32], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/task/%s/%s", process, thread, file);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			fprintf(stderr, "#     %s%s\n", title, line);
	}
	if (f)
		fclose(f);
}

static void say_where_thread_stands(const char *process, const char *thread)
{
	fprintf(stderr, "#   thread %s of process %s\n", thread, process);
	say(process, thread, "comm", "name: ");
	say(process, thread, "syscall", "system call: ");
	say(process, thread, "wchan", "sleeps in: ");
	say(process, thread, "stack", "");
}

/* Call EACH with PROCESS and each name in the folder that is a number. */
static void for_numbers(const char *folder, const char *process,
			void (*each)(const char *process, const char *number))
{
	DIR *dir = opendir(folder);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (atoi(e->d_name) > 0)
			each(process ?: e->d_name, e->d_name);
	if (dir)
		closedir(dir);
}

static pid_t wanted;

static void say_where_process_stands(const char *process, const char *same)
{
	char path[NAME_MAX + 32];

	if (getpgid(atoi(process)) != wanted)
		return;
	snprintf(path, sizeof(path), "/proc/%s/task", process);
	for_numbers(path, process, say_where_thread_stands);
}

void say_where_group_stands(pid_t group)
{
	wanted = group;
	fprintf(stderr, "# its time is over; it stands here:\n");
	for_numbers("/proc", NULL, say_where_process_stands);
}
