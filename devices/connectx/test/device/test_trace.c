// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The log and the trace: a line stays a line, whatever a guest writes into it; a guest cannot
 * fill the disk; each thing that happens has its line.
 */
#include "loopback_guest.h"
#include "clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define QUEUE 0x700000u		/* in the guest's memory: of commands */
#define LIMIT 1000

static FILE *file;
static char text[1 << 18];

static void begin(bool everything)
{
	file = tmpfile();
	assert_non_null(file);
	trace_to(file, everything);
}

/* Read what was said. */
static void end(void)
{
	size_t len;

	fflush(file);
	rewind(file);
	len = fread(text, 1, sizeof(text) - 1, file);
	assert_true(len < sizeof(text) - 1);
	text[len] = 0;
	trace_to(stderr, false);
	fclose(file);
}

/* How many lines have WHAT in them; text[] stays. */
static unsigned int lines_with(const char *what)
{
	char *copy = strdup(text), *rest = copy, *line;
	unsigned int n = 0;

	while ((line = strsep(&rest, "\n")))
		n += *line && strstr(line, what);
	free(copy);
	return n;
}

static void control_characters_are_replaced(void **state)
{
	char all[256], one[2] = "", is[] = "connectx: a guest's name: .";

	begin(false);
	for (int c = 1; c < 256; c++) {
		one[0] = c;
		note("a guest's name: %s", one);
	}
	/* ISO 6429's control sequence introducer, as one character of UTF-8. */
	note("\xc2\x9b" "31m");
	for (int c = 1; c < 256; c++)
		all[c - 1] = c;
	all[255] = 0;
	note("%s", all);
	end();
	assert_int_equal(lines_with(""), 255 + 2);
	for (const char *c = text; *c; c++)
		assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
	for (is[26] = '!'; is[26] <= '~'; is[26]++)
		assert_non_null(strstr(text, is));	/* the others are as they were */
	assert_non_null(strstr(text, "connectx: ??31m\n"));
}

static void trace_replaces_control_characters_too(void **state)
{
	begin(true);
	trace("a\nb\033[2Jc");
	note("d\re");
	end();
	assert_int_equal(lines_with(""), 2);
	assert_int_equal(lines_with(" a?b?[2Jc"), 1);
	assert_int_equal(lines_with(" connectx: d?e"), 1);
}

static void long_line_is_cut(void **state)
{
	char *name = malloc(100001);

	memset(name, 'x', 100000);
	name[100000] = 0;
	begin(false);
	note("%s", name);
	end();
	free(name);
	assert_int_equal(lines_with(""), 1);
	assert_int_equal(strlen(text), strlen("connectx: ") + 1023 + 1);
}

static void guest_cannot_fill_the_disk(void **state)
{
	begin(false);
	for (int i = 1; i <= 3 * LIMIT; i++)
		note("line %d.", i);
	trace("no trace");
	end();
	assert_int_equal(lines_with(""), LIMIT);
	assert_int_equal(lines_with("says no more"), 1);
	assert_int_equal(lines_with("line 1."), 1);
	assert_int_equal(lines_with("line 999."), 1);
	assert_int_equal(lines_with("line 1000."), 0);

	begin(true);		/* who asks for all lines gets them */
	for (int i = 1; i <= 3 * LIMIT; i++)
		note("line %d.", i);
	end();
	assert_int_equal(lines_with("line "), 3 * LIMIT);
}

/* By the queue, as a driver gives it. */
static void give_command(uint16_t op)
{
	u8 *entry = memory + QUEUE, dword[4];
	static const struct { uint64_t at; uint32_t value; } writes[] = {
		{ 0x10, BASE >> 32 }, { 0x14, (uint32_t)BASE + QUEUE }, { 0x18, 1 },
	};

	memset(entry, 0, 64);
	entry[0] = 7;				/* a command */
	put_be32(entry + 4, 16);
	put_be16(entry + 16, op);
	put_be32(entry + 56, 16);
	entry[63] = 1;				/* the device's */
	for (int i = 0; i < 3; i++) {
		put_be32(dword, writes[i].value);
		hca_bar_write(hca, writes[i].at, dword, 4);
	}
	assert_int_equal(entry[63], 0);
}

static void each_event_has_a_trace_line(void **state)
{
	char line[128];

	model_up();
	for (int qp = 0; qp < 2; qp++)
		make_qp(qp, MLX5_QPC_ST_RC);
	for (int qp = 0; qp < 2; qp++)
		connect_qp(qp);
	begin(false);
	give_command(MLX5_CMD_OP_ALLOC_PD);
	end();
	assert_string_equal(text, "");
	begin(true);
	give_command(MLX5_CMD_OP_ALLOC_PD);
	post_recv(1, 0, 100, DATA_SIZE);
	ring(0, 0, put_data(send_block(0, 0) + 16, 100, 0), MLX5_OPCODE_SEND, 0);
	run_turns(50);
	end();
	model_down();
	assert_int_equal(lines_with("cmd 0 0x800 ALLOC_PD "), 1);
	assert_int_equal(lines_with(" status 0 "), 1);
	snprintf(line, sizeof(line), "qp %#x: wqe 0 op 0xa, ", qpn[0]);
	assert_int_equal(lines_with(line), 1);
	snprintf(line, sizeof(line), "out RC SEND_ONLY 2>2 qp %#x psn 0 100 bytes", qpn[1]);
	assert_int_equal(lines_with(line), 1);
	snprintf(line, sizeof(line), "out RC ACK 2>2 qp %#x psn 0 ", qpn[0]);
	assert_int_equal(lines_with(line), 1);
	snprintf(line, sizeof(line), "qp %#x: sent wqe 0 op 0xa, syndrome 0,", qpn[0]);
	assert_int_equal(lines_with(line), 1);
	snprintf(line, sizeof(line), "qp %#x: received wqe 0 ", qpn[1]);
	assert_int_equal(lines_with(line), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control_characters_are_replaced),
		cmocka_unit_test(trace_replaces_control_characters_too),
		cmocka_unit_test(long_line_is_cut),
		cmocka_unit_test(guest_cannot_fill_the_disk),
		cmocka_unit_test(each_event_has_a_trace_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
