// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mrfd_kernel_dm: a ULP that uses device memory.  For tests.
 *
 * An open /dev/mrfd_kernel_dm is a user.  What is written to it is a command, and it is done
 * when the write returns, by the thread that writes: so a test can let an allocation fail in
 * it.  The write fails with the errno of what failed, or with EPROTO if something is not as it
 * should be; a read then tells what.
 *
 *	open DEVICE	protection domain, two queue pairs connected to each other
 *	close		everything ends
 *
 *	counter, ring, copy, regions, ranges, too_much, budget, importer, foreign DEVICE
 *			work with DM (work.c, limits.c, exported.c), which is free again
 *			afterwards
 *
 *	serve QPN	a counter in DM for that queue pair of a process, which it is connected to;
 *			the result is its own queue pair, and the rkey of the counter
 *	served N	that the process has added N; everything is free again
 *	hold		DM with regions, which it keeps
 *	take		all that the device has left, kept too
 *	fill N		a pattern into all that is kept
 *	is_held		that what hold has written is there, and the regions work
 *	is_zero		that all that is kept is zero
 *	export		a dma-buf of what hold has; the result is an fd of the caller
 *	free		what is kept; that succeeds
 *
 * When a device leaves, the op remove of the client ends all that its users have.  They are
 * still open; their next command fails with ENODEV, and a read tells what was there.
 *
 * One mutex is enough, because nothing here is fast: it is held for a command and for a
 * removal, so neither sees half of the other.
 */

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include "user.h"

#define LINE_LENGTH 80

static DEFINE_MUTEX(lock);	/* of all below, and of every user */
static LIST_HEAD(users);	/* that have a device */
static LIST_HEAD(devices);

struct known {
	struct list_head entry;
	struct ib_device *device;
};

int user_finds(struct dm_user *u, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vscnprintf(u->text, sizeof(u->text), fmt, args);
	va_end(args);
	return -EPROTO;
}

/* --- The devices */

static int device_added(struct ib_device *device)
{
	struct known *known = kzalloc(sizeof(*known), GFP_KERNEL);

	if (!known)
		return -ENOMEM;
	known->device = device;
	mutex_lock(&lock);
	list_add(&known->entry, &devices);
	mutex_unlock(&lock);
	return 0;
}

static void user_leaves(struct dm_user *u)
{
	unsigned int dms = u->dms, mrs = u->mrs;

	list_del_init(&u->entry);
	u->text[0] = '\0';
	/* Until now what it holds was there, and works. */
	if (!mrs || !run_is_held(u, ""))
		scnprintf(u->text, sizeof(u->text), "%u DMs and %u MRs", dms, mrs);
	user_close(u);
}

static void device_removed(struct ib_device *device, void *data)
{
	struct known *known, *next_known;
	struct dm_user *u, *next;

	mutex_lock(&lock);
	list_for_each_entry_safe(u, next, &users, entry)
		if (u->device == device)
			user_leaves(u);
	list_for_each_entry_safe(known, next_known, &devices, entry) {
		if (known->device != device)
			continue;
		list_del(&known->entry);
		kfree(known);
	}
	mutex_unlock(&lock);
}

static struct ib_client client = {
	.name = "mrfd_kernel_dm",
	.add = device_added,
	.remove = device_removed,
};

/* It stays as long as the mutex is held. */
static struct ib_device *device_of_name(const char *name)
{
	struct known *known;

	list_for_each_entry(known, &devices, entry)
		if (!strcmp(dev_name(&known->device->dev), name))
			return known->device;
	return NULL;
}

/* --- The commands */

static int command_open(struct dm_user *u, const char *name)
{
	struct ib_device *device = device_of_name(name);
	int err;

	if (u->device)
		return -EBUSY;
	if (!device)
		return -ENODEV;
	err = user_open(u, device);
	if (!err)
		list_add(&u->entry, &users);
	return err;
}

static int command_close(struct dm_user *u, const char *arg)
{
	list_del_init(&u->entry);
	user_close(u);
	return 0;
}

static int command_free(struct dm_user *u, const char *arg)
{
	user_release(u);
	return 0;
}

static int command_foreign(struct dm_user *u, const char *name)
{
	struct ib_device *other = device_of_name(name);

	return other ? run_foreign(u, other) : -ENODEV;
}

static const struct command {
	const char *name;
	int (*run)(struct dm_user *u, const char *arg);
	bool keeps;	/* what it has made */
} commands[] = {
	{ "open", command_open, true },
	{ "close", command_close },
	{ "counter", run_counter },
	{ "ring", run_ring },
	{ "copy", run_copy },
	{ "regions", run_regions },
	{ "two", run_two },
	{ "ranges", run_ranges },
	{ "too_much", run_too_much },
	{ "budget", run_budget },
	{ "importer", run_importer },
	{ "foreign", command_foreign },
	{ "serve", run_serve, true },
	{ "served", run_served },
	{ "hold", run_hold, true },
	{ "take", run_take, true },
	{ "fill", run_fill, true },
	{ "is_held", run_is_held, true },
	{ "is_zero", run_is_zero, true },
	{ "export", run_export, true },
	{ "free", command_free, true },
};

static int run_command(struct dm_user *u, const struct command *command, const char *arg)
{
	int err;

	if (!u->device && command->run != command_open)
		return -ENODEV;
	u->text[0] = '\0';
	err = command->run(u, arg);
	if (err || !command->keeps)
		user_release(u);
	return err;
}

static int user_command(struct dm_user *u, char *line)
{
	char *name = strim(line), *arg = name;
	int i;

	strsep(&arg, " ");
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, name))
			return run_command(u, &commands[i], arg ?: "");
	return -EINVAL;
}

/* --- The file */

static ssize_t user_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	char line[LINE_LENGTH] = "";
	int err;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;

	mutex_lock(&lock);
	err = user_command(file->private_data, line);
	mutex_unlock(&lock);
	return err ?: count;
}

static ssize_t user_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	struct dm_user *u = file->private_data;
	char text[sizeof(u->text)];

	mutex_lock(&lock);
	strscpy(text, u->text);
	mutex_unlock(&lock);
	return simple_read_from_buffer(to, count, pos, text, strlen(text));
}

static int user_file_open(struct inode *inode, struct file *file)
{
	struct dm_user *u = kzalloc(sizeof(*u), GFP_KERNEL);

	if (!u)
		return -ENOMEM;
	INIT_LIST_HEAD(&u->entry);
	file->private_data = u;
	return 0;
}

static int user_file_release(struct inode *inode, struct file *file)
{
	struct dm_user *u = file->private_data;

	mutex_lock(&lock);
	command_close(u, "");
	mutex_unlock(&lock);
	kfree(u);
	return 0;
}

static const struct file_operations user_fops = {
	.owner = THIS_MODULE,
	.open = user_file_open,
	.release = user_file_release,
	.read = user_read,
	.write = user_write,
};

static struct miscdevice user_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "mrfd_kernel_dm",
	.fops = &user_fops,
	.mode = 0600,
};

static int __init user_init(void)
{
	int err = ib_register_client(&client);

	if (err)
		return err;
	err = misc_register(&user_device);
	if (err)
		ib_unregister_client(&client);
	return err;
}

static void __exit user_exit(void)
{
	misc_deregister(&user_device);
	ib_unregister_client(&client);
}

module_init(user_init);
module_exit(user_exit);
MODULE_DESCRIPTION("A ULP that uses device memory, for tests");
MODULE_LICENSE("GPL");
