// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mrfd_steps: let a step of a system call fail, or begin late.  For tests, x86-64 only.
 *
 * The kernel's own fault injection reaches allocations and copies.  Firmware commands, work
 * requests of the driver, DMA mappings and the operations of an exporter fail too, and
 * nothing there makes them.  A step is a function of the kernel, by name.  A kprobe at its
 * entry counts the calls of one thread, and does one of three things to one of them: the
 * function does not run and returns a given value; it runs with another argument, by which it
 * fails itself, so that the device itself refuses a command; or it begins late, so that
 * another thread comes first.
 *
 * An open /dev/mrfd_steps is a step.  What is written to it:
 *
 *	FUNCTION return VALUE		what is to fail, and how
 *	FUNCTION argument N VALUE	the same; arguments count from 1, to 6
 *	FUNCTION delay MS		it begins so much later, at most a second; its CPU is busy
 *	at N				from now on the Nth call of this thread is hit; 0: none
 *
 * A read gives the number of calls since the last "at", and of those that were hit: 0 or 1.
 * A close takes the probe away, so nothing is left when a test dies.
 *
 * Only the thread that wrote "at" is hit, and only its own calls change the counts, so the
 * handler needs no lock.
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/kprobes.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define NAME_LENGTH 64
#define LINE_LENGTH 128
#define MAX_DELAY 1000

enum step_action { STEP_RETURN, STEP_ARGUMENT, STEP_DELAY };

struct step {
	struct mutex lock;	/* of all but what the handler changes */
	struct kprobe probe;
	char function[NAME_LENGTH];	/* empty: no probe is set */
	enum step_action action;
	unsigned int argument;
	unsigned long value;
	struct task_struct *task;
	unsigned int nth;
	unsigned int calls;	/* the handler changes these two, in the task */
	unsigned int hit;
};

/* Where the probe jumps to: a function that returns at once, to the caller. */
asmlinkage void mrfd_steps_return(void);
asm(".pushsection .text\n"
	".type mrfd_steps_return, @function\n"
	"mrfd_steps_return:\n"
	ASM_ENDBR
	ASM_RET
	".size mrfd_steps_return, . - mrfd_steps_return\n"
	".popsection\n");

static unsigned long *step_argument(struct pt_regs *regs, unsigned int n)
{
	switch (n) {
	case 1:
		return &regs->di;
	case 2:
		return &regs->si;
	case 3:
		return &regs->dx;
	case 4:
		return &regs->cx;
	case 5:
		return &regs->r8;
	default:
		return &regs->r9;
	}
}
NOKPROBE_SYMBOL(step_argument);

static int step_reached(struct kprobe *probe, struct pt_regs *regs)
{
	struct step *step = container_of(probe, struct step, probe);

	if (current != READ_ONCE(step->task) || !in_task() ||
	    ++step->calls != step->nth)
		return 0;

	WRITE_ONCE(step->hit, 1);
	switch (step->action) {
	case STEP_ARGUMENT:
		*step_argument(regs, step->argument) = step->value;
		return 0;
	case STEP_DELAY:
		mdelay(step->value);
		return 0;
	default:
		regs->ax = step->value;
		regs->ip = (unsigned long)mrfd_steps_return;
		return 1;
	}
}
NOKPROBE_SYMBOL(step_reached);

static void step_disarm(struct step *step)
{
	if (!step->task)
		return;
	put_task_struct(step->task);
	WRITE_ONCE(step->task, NULL);
}

/* Nobody is in the handler when this returns. */
static void step_clear(struct step *step)
{
	if (!step->function[0])
		return;
	unregister_kprobe(&step->probe);
	step->function[0] = '\0';
	step_disarm(step);
}

static int step_set(struct step *step, const char *function, enum step_action action,
		    unsigned int argument, unsigned long value)
{
	int err;

	step_clear(step);
	strscpy(step->function, function, sizeof(step->function));
	step->action = action;
	step->argument = argument;
	step->value = value;
	step->probe = (struct kprobe){
		.symbol_name = step->function,
		.pre_handler = step_reached,
	};
	err = register_kprobe(&step->probe);
	if (err)
		step->function[0] = '\0';
	return err;
}

/* The task that was armed is the current one or has ended, so it is not in the handler. */
static int step_arm(struct step *step, unsigned int nth)
{
	if (!step->function[0])
		return -EINVAL;
	step_disarm(step);
	step->nth = nth;
	step->calls = 0;
	step->hit = 0;
	WRITE_ONCE(step->task, get_task_struct(current));
	return 0;
}

static int step_command(struct step *step, const char *line)
{
	char function[NAME_LENGTH];
	unsigned int n;
	long value;

	if (sscanf(line, "at %u", &n) == 1)
		return step_arm(step, n);
	if (sscanf(line, "%63s return %li", function, &value) == 2)
		return step_set(step, function, STEP_RETURN, 0, value);
	if (sscanf(line, "%63s argument %u %li", function, &n, &value) == 3 && n >= 1 && n <= 6)
		return step_set(step, function, STEP_ARGUMENT, n, value);
	if (sscanf(line, "%63s delay %u", function, &n) == 2 && n <= MAX_DELAY)
		return step_set(step, function, STEP_DELAY, 0, n);
	return -EINVAL;
}

static ssize_t step_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct step *step = file->private_data;
	char line[LINE_LENGTH] = "";
	int err;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;

	mutex_lock(&step->lock);
	err = step_command(step, line);
	mutex_unlock(&step->lock);
	return err ?: count;
}

static ssize_t step_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	struct step *step = file->private_data;
	char line[LINE_LENGTH];
	int length;

	mutex_lock(&step->lock);
	length = scnprintf(line, sizeof(line), "%u %u\n", step->calls, READ_ONCE(step->hit));
	mutex_unlock(&step->lock);
	return simple_read_from_buffer(to, count, pos, line, length);
}

static int step_open(struct inode *inode, struct file *file)
{
	struct step *step = kzalloc(sizeof(*step), GFP_KERNEL);

	if (!step)
		return -ENOMEM;
	mutex_init(&step->lock);
	file->private_data = step;
	return 0;
}

static int step_release(struct inode *inode, struct file *file)
{
	struct step *step = file->private_data;

	step_clear(step);
	mutex_destroy(&step->lock);
	kfree(step);
	return 0;
}

static const struct file_operations step_fops = {
	.owner = THIS_MODULE,
	.open = step_open,
	.release = step_release,
	.read = step_read,
	.write = step_write,
};

static struct miscdevice step_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "mrfd_steps",
	.fops = &step_fops,
	.mode = 0600,
};

module_misc_device(step_device);
MODULE_DESCRIPTION("Let a step of a system call fail, for tests");
MODULE_LICENSE("GPL");
