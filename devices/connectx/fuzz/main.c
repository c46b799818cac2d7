// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a target where libFuzzer is not there, with a part of its options:
 *
 *	fuzz_NAME [-runs=N] [-seed=N] [-timeout=N] [-artifact=FILE] FILE|DIR...
 *
 * The files, and those in directories, are run once each.  With -runs, N changes of them
 * follow: bytes are changed, removed, repeated and put in from another input.
 * There is no feedback, so this finds what is near the corpus; what grows it is libFuzzer.
 * Without a seed a new one is taken.  The output is TAP, for scripts/check.
 *
 * A run with no file fails.  All else is counted, not timed, so a busy machine changes nothing.
 *
 * What is being run is written to the artifact file before the process dies of it.
 */
#define _GNU_SOURCE
#include "input.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/time.h>
#include <unistd.h>

#define INPUT_MAX 4096
#define CORPUS_MAX 20000

struct sample {
	size_t size;
	uint8_t *data;
};

static struct sample corpus[CORPUS_MAX];
static unsigned int samples;
static const char *artifact = "crash";
static uint64_t random_state;
/* What runs now. */
static const uint8_t *current;
static size_t current_size;

/* splitmix64 */
static uint64_t draw(uint64_t below)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % below;
}

static void save(void)
{
	int fd = open(artifact, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || !current)
		return;
	if (write(fd, current, current_size) == (ssize_t)current_size)
		dprintf(STDERR_FILENO, "the input is in %s, %zu bytes\n", artifact, current_size);
	close(fd);
}

static void died(int sig)
{
	if (sig == SIGPROF)
		dprintf(STDERR_FILENO, "timeout\n");
	save();
	signal(sig, SIG_DFL);
	raise(sig == SIGPROF ? SIGABRT : sig);
}

/* ASan calls this, and ends the process by itself. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void run(const uint8_t *data, size_t size, unsigned int seconds)
{
	struct itimerval limit = { .it_value.tv_sec = seconds };
	uint8_t *copy = malloc(size ? size : 1);	/* so that ASan sees where it ends */

	if (!copy)
		abort();
	memcpy(copy, data, size);
	current = copy;
	current_size = size;
	/* Time of the processor: a machine that is busy is no finding. */
	setitimer(ITIMER_PROF, &limit, NULL);
	LLVMFuzzerTestOneInput(copy, size);
	current = NULL;
	free(copy);
}

static void add_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t bytes[INPUT_MAX];
	ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));

	if (n < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
	close(fd);
	if (samples == CORPUS_MAX)
		return;
	corpus[samples].data = malloc(n ? n : 1);
	if (!corpus[samples].data)
		abort();
	memcpy(corpus[samples].data, bytes, n);
	corpus[samples++].size = n;
}

static void add(const char *path)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort);

	if (n < 0) {
		if (errno != ENOTDIR) {
			fprintf(stderr, "%s: %s\n", path, strerror(errno));
			exit(1);
		}
		add_file(path);
		return;
	}
	for (int i = 0; i < n; i++) {
		char name[4096];

		snprintf(name, sizeof(name), "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			add_file(name);
		free(names[i]);
	}
	free(names);
}

/* One change of DATA, which has room for INPUT_MAX bytes.  Its new size. */
static size_t change(uint8_t *data, size_t size)
{
	size_t at = size ? draw(size) : 0, n = size ? draw(size - at) % 64 + 1 : 0;
	const struct sample *other = &corpus[draw(samples)];

	if (n > size - at)
		n = size - at;
	switch (draw(7)) {
	case 0:
		if (size)
			data[at] ^= 1 << draw(8);
		return size;
	case 1:
		if (size)
			data[at] = draw(256);
		return size;
	case 2:
		if (size)
			data[at] += draw(9) - 4;
		return size;
	case 3:
		memmove(data + at, data + at + n, size - at - n);
		return size - n;
	case 4:					/* repeat */
		if (size + n > INPUT_MAX)
			return size;
		memmove(data + at + n, data + at, size - at);
		return size + n;
	case 5:					/* new bytes */
		n = draw(16) + 1;
		if (size + n > INPUT_MAX)
			return size;
		memmove(data + at + n, data + at, size - at);
		for (size_t i = 0; i < n; i++)
			data[at + i] = draw(256);
		return size + n;
	default:				/* the end of another one */
		if (!other->size)
			return size;
		n = draw(other->size);
		if (at + other->size - n > INPUT_MAX)
			return size;
		memcpy(data + at, other->data + n, other->size - n);
		return at + other->size - n;
	}
}

static void mutate(unsigned int runs, unsigned int timeout)
{
	static uint8_t data[INPUT_MAX];

	while (runs--) {
		const struct sample *s = &corpus[draw(samples)];
		size_t size = s->size;

		if (size) /* the empty input has no bytes to point to */
			memcpy(data, s->data, size);
		for (unsigned int i = 1 << draw(5); i--;)
			size = change(data, size);
		run(data, size, timeout);
	}
}

static bool result(unsigned int number, const char *name, bool ok)
{
	printf("%s %u - %s\n", ok ? "ok" : "not ok", number, name);
	return ok;
}

int main(int argc, char **argv)
{
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF };
	unsigned int runs = 0, timeout = 2, files;
	unsigned long seed;
	bool ok;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		abort();
	for (int i = 1; i < argc; i++) {
		if (sscanf(argv[i], "-runs=%u", &runs) == 1 ||
		    sscanf(argv[i], "-timeout=%u", &timeout) == 1)
			continue;
		if (!strncmp(argv[i], "-seed=", 6))
			seed = strtoul(argv[i] + 6, NULL, 0);
		else if (!strncmp(argv[i], "-artifact=", 10))
			artifact = argv[i] + 10;
		else
			add(argv[i]);
	}
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		signal(signals[i], died);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(save);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%d\n", runs ? 2 : 1);
	files = samples;
	for (unsigned int i = 0; i < files; i++)
		run(corpus[i].data, corpus[i].size, timeout);
	printf("# %u files\n", files);
	ok = result(1, "corpus", files);
	if (!runs)
		return !ok;
	/* Now, as the changes may end the process. */
	printf("# MRFD_SEED=%lu\n", seed);
	random_state = seed;
	if (!samples)
		samples = 1;		/* the empty input */
	mutate(runs, timeout);
	printf("# %u inputs\n", runs);
	return !result(2, "changed_inputs", true) || !ok;
}
