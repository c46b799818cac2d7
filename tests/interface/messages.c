// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * Each mistake that only an ioctl() can have has its errno: attributes, sizes, the header, the
 * memory of the message and of the response.
 */
#include "interface/mistakes.h"
#include "lib/depth.h"
#include <sys/wait.h>

/* A correct message, in which a case then makes a mistake before it sends it. */
static struct keys *msg_right(FIXTURE_DATA(uapi) *self, union msg *m, bool rereg)
{
	static struct keys keys;
	static struct fd_call c;

	c = right_call(self, rereg);
	msg_of(m, &c, &keys);
	return &keys;
}

/* Send it; if this made an MR, deregister it. */
static int sent(FIXTURE_DATA(uapi) *self, union msg *m, bool rereg)
{
	int err = msg_send(self->ctx->cmd_fd, m);

	if (!err && !rereg)
		mr_dereg(self->ctx->cmd_fd, BY_IOCTL, m->hdr.attrs[0].data);
	return err;
}

static void expect_msg(FIXTURE_DATA(uapi) *self, union msg *m, bool rereg, const char *what,
		       int nr, int wanted)
{
	char text[80];

	snprintf(text, sizeof(text), "%s, attribute %d", what, nr);
	expect(self, rereg, "ioctl()", text, sent(self, m, rereg), wanted);
}

TEST_F_TIMEOUT(uapi, missing_or_doubled_attribute_is_einval, 120)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		union msg m, right;

		msg_right(self, &right, rereg);
		for (int i = 0; i < right.hdr.num_attrs; i++) {
			m = right;
			m.hdr.attrs[i] = m.hdr.attrs[--m.hdr.num_attrs];
			msg_length(&m);
			expect_msg(self, &m, rereg, "missing", i, EINVAL);
			m = right;
			*msg_add(&m, 0, 0, 0) = right.hdr.attrs[i];
			expect_msg(self, &m, rereg, "doubled", i, EINVAL);
		}
	}
	ASSERT_EQ(0, self->failures);
}

TEST_F_TIMEOUT(uapi, attribute_of_wrong_size_is_einval, 120)
{
	static const uint64_t value[4] = { 1, 1, 1, 1 };

	for (int rereg = 0; rereg < 2; rereg++) {
		union msg m, right;

		msg_right(self, &right, rereg);
		for (int i = 0; i < right.hdr.num_attrs; i++) {
			struct ib_uverbs_attr *attr = &m.hdr.attrs[i];

			m = right;
			attr->len++;
			expect_msg(self, &m, rereg, "a byte longer", i, EINVAL);
			m = right;
			attr->len--;
			expect_msg(self, &m, rereg, "a byte shorter", i, EINVAL);
			m = right;
			attr->len += 16;
			attr->data = (uintptr_t)value;
			expect_msg(self, &m, rereg, "much longer", i, EINVAL);
			m = right;
			attr->len = 0xffff;
			expect_msg(self, &m, rereg, "as long as can be", i, EINVAL);
			m = right;
			attr->attr_data.reserved = 1;
			expect_msg(self, &m, rereg, "the reserved field", i, EINVAL);
		}
	}
	ASSERT_EQ(0, self->failures);
}

/* Flags may have 4 bytes or 8; the kernel looks at all of them. */
TEST_F(uapi, all_eight_bytes_of_flags_are_checked)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		int id = rereg ? UVERBS_ATTR_REREG_MR_FD_ACCESS_FLAGS :
				 UVERBS_ATTR_REG_MR_FD_ACCESS_FLAGS;
		union msg m;

		msg_right(self, &m, rereg);
		msg_find(&m, id)->len = 8;
		expect_msg(self, &m, rereg, "8 bytes", id, 0);
		msg_right(self, &m, rereg);
		msg_find(&m, id)->len = 8;
		msg_find(&m, id)->data |= 1ul << 32;
		expect_msg(self, &m, rereg, "bit 32", id, EINVAL);
	}
	ASSERT_EQ(0, self->failures);
}

TEST_F(uapi, number_above_32_bits_is_refused)
{
	uint32_t caps;
	union msg m;

	msg_right(self, &m, false);
	msg_find(&m, UVERBS_ATTR_REG_MR_FD_PD_HANDLE)->data |= 1ul << 32;
	expect_msg(self, &m, false, "bit 32 of the PD", 0, ENOENT);
	msg_right(self, &m, false);
	msg_find(&m, UVERBS_ATTR_REG_MR_FD_PD_HANDLE)->data |= 1ul << 63;
	expect_msg(self, &m, false, "bit 63 of the PD", 0, EINVAL);
	ASSERT_EQ(EINVAL, buffer_caps(self->ctx->cmd_fd, 1ul << 32, &caps));
	ASSERT_EQ(0, self->failures);
}

/* All attributes are there, of which the flags select some. */
TEST_F(uapi, rereg_attribute_that_its_flags_do_not_select_is_einval)
{
	for (uint32_t flags = 1; flags <= CHANGE_ALL; flags++) {
		union msg m;

		msg_right(self, &m, true);
		msg_find(&m, UVERBS_ATTR_REREG_MR_FD_FLAGS)->data = flags;
		expect_msg(self, &m, true, "flags", flags, flags == CHANGE_ALL ? 0 : EINVAL);
	}
	ASSERT_EQ(0, self->failures);
}

TEST_F(uapi, unreadable_buffer_description_is_efault)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		int id = rereg ? UVERBS_ATTR_REREG_MR_FD_BUFFER : UVERBS_ATTR_REG_MR_FD_BUFFER;
		uint8_t *const in[] = { NULL, self->edge + PAGE, self->edge + PAGE - 8,
					(uint8_t *)0xffffffff81000000 };

		for (int i = 0; i < ARRAY_SIZE(in); i++) {
			union msg m;

			msg_right(self, &m, rereg);
			msg_find(&m, id)->data = (uintptr_t)in[i];
			expect_msg(self, &m, rereg, "memory", i, EFAULT);
		}
	}
	ASSERT_EQ(0, self->failures);
}

/* The kernel ignores bits of an attribute's flags that have no meaning. */
TEST_F(uapi, unknown_mandatory_attribute_is_eprotonosupport)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		union msg m;

		msg_right(self, &m, rereg);
		msg_add(&m, 100, 8, 0);
		expect_msg(self, &m, rereg, "unknown", 100, EPROTONOSUPPORT);
		msg_right(self, &m, rereg);
		msg_add(&m, 100, 8, 0)->flags = 0;
		expect_msg(self, &m, rereg, "unknown, optional", 100, 0);
		msg_right(self, &m, rereg);
		for (int i = 0; i < m.hdr.num_attrs; i++)
			m.hdr.attrs[i].flags = 0xffff;
		expect_msg(self, &m, rereg, "all flags set", -1, 0);
	}
	ASSERT_EQ(0, self->failures);
}

TEST_F(uapi, wrong_header_is_refused)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		union msg m;

#define WRONG(field, value, errno) do {						\
	msg_right(self, &m, rereg);						\
	m.hdr.field = value;							\
	expect(self, rereg, "ioctl()", #field " " #value, sent(self, &m, rereg), errno);	\
} while (0)
		WRONG(object_id, 200, EPROTONOSUPPORT);
		WRONG(object_id, UVERBS_OBJECT_PD, EPROTONOSUPPORT);
		WRONG(object_id, 0xffff, EPROTONOSUPPORT);
		WRONG(method_id, 99, EPROTONOSUPPORT);
		WRONG(method_id, UVERBS_METHOD_REG_MR_FD + 1, EPROTONOSUPPORT);
		WRONG(method_id, UVERBS_METHOD_REREG_MR_FD - 1, EPROTONOSUPPORT);
		WRONG(method_id, 0xffff, EPROTONOSUPPORT);
		WRONG(driver_id, device_driver_id() + 1, EINVAL);
		WRONG(reserved1, 1, EPROTONOSUPPORT);
		WRONG(reserved2, 1, EPROTONOSUPPORT);
		WRONG(length, m.hdr.length - 1, EINVAL);
		WRONG(length, m.hdr.length + sizeof(*m.hdr.attrs), EINVAL);
		WRONG(length, 0, EINVAL);
		WRONG(length, 0xffff, EINVAL);
		WRONG(num_attrs, 0, EINVAL);
		WRONG(num_attrs, 0xffff, EINVAL);
#undef WRONG
		msg_right(self, &m, rereg);
		m.hdr.num_attrs = 0;
		msg_length(&m);
		expect(self, rereg, "ioctl()", "no attributes", sent(self, &m, rereg), EINVAL);
	}
	ASSERT_EQ(0, self->failures);
}

/* Send a message from memory that the kernel cannot read or cannot write. */
static int sent_from(FIXTURE_DATA(uapi) *self, const void *at)
{
	return msg_send(self->ctx->cmd_fd, (union msg *)at);
}

TEST_F(uapi, inaccessible_memory_of_ioctl_is_efault)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		uint8_t *none = self->edge + PAGE, *ro = self->read_only;
		uint8_t *const out[] = { NULL, none, none - 2, ro, (uint8_t *)0xffffffff81000000 };
		const char *const what[] = { "NULL", "nowhere", "half", "read-only",
					     "the kernel's" };
		union msg m;
		int n;

		for (int i = 0; i < ARRAY_SIZE(out); i++) {
			for (int key = 1; key < 3; key++) {
				msg_right(self, &m, rereg);
				m.hdr.attrs[m.hdr.num_attrs - key].data = (uintptr_t)out[i];
				expect(self, rereg, "ioctl(), key", what[i], sent(self, &m, rereg),
				       EFAULT);
			}
		}
		msg_right(self, &m, rereg);
		n = m.hdr.length;
		expect(self, rereg, "ioctl() of", "NULL", sent_from(self, NULL), EFAULT);
		expect(self, rereg, "ioctl() of", "nowhere", sent_from(self, none), EFAULT);
		memcpy(none - n / 2, &m, n / 2);
		expect(self, rereg, "ioctl() of", "half", sent_from(self, none - n / 2), EFAULT);
		memcpy(none - 10, &m, 10);
		expect(self, rereg, "ioctl() of", "a piece", sent_from(self, none - 10), EFAULT);
		/* The kernel marks in the message the attributes that it has written. */
		ASSERT_EQ(0, mprotect(ro, PAGE, PROT_READ | PROT_WRITE));
		memcpy(ro, &m, n);
		ASSERT_EQ(0, mprotect(ro, PAGE, PROT_READ));
		expect(self, rereg, "ioctl() of", "read-only", sent_from(self, ro), EFAULT);
	}
	ASSERT_EQ(0, self->failures);
}

/* A call for a context that is refused must not leave a reference on the process. */
TEST_F_TIMEOUT(uapi, second_context_is_einval_and_leaks_no_task, 120)
{
	long before = slab_objects("task_struct"), processes = depth(100, 300);
	char dev[128];

	snprintf(dev, sizeof(dev), "/dev/infiniband/%s", self->ctx->device->dev_name);
	for (int i = 0; i < processes; i++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			struct raw raw;

			if ((errno = raw_open(&raw, dev, BY_IOCTL)))
				fail_case("open a context");
			_exit(raw_get_context(&raw, i % 2) == EINVAL ? 0 : 1);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
	}
	/* Processes are freed a little later, and unrelated ones start and end. */
	for (double end = deadline(5); now() < end; usleep(100000))
		if (slab_objects("task_struct") <= before + processes / 3)
			break;
	ASSERT_GE(before + processes / 3, slab_objects("task_struct"));
}

TEST_HARNESS_MAIN
