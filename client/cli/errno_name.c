/*
 * errno_name: names of what a system call returns when it fails.
 */
#include "client/cli/errno_name.h"

#include <stddef.h>
#include <string.h>

/* Numbers that never leave the kernel by a return, but that a tracer sees. */
static const struct {
	int number;
	const char *name, *text;
} kernel_only[] = {
	{ 512, "ERESTARTSYS", "To be restarted, or EINTR" },
	{ 513, "ERESTARTNOINTR", "To be restarted" },
	{ 514, "ERESTARTNOHAND", "To be restarted if no handler" },
	{ 515, "ENOIOCTLCMD", "No such ioctl" },
	{ 516, "ERESTART_RESTARTBLOCK", "Interrupted by signal" },
	{ 517, "EPROBE_DEFER", "Driver wants to be probed later" },
	{ 524, "ENOTSUPP", "Operation is not supported" },
	{ 529, "EIOCBQUEUED", "Queued for asynchronous I/O" },
};

const char *errno_name(int number)
{
	for (size_t i = 0; i < sizeof(kernel_only) / sizeof(*kernel_only); i++)
		if (kernel_only[i].number == number)
			return kernel_only[i].name;
	return strerrorname_np(number);
}

const char *errno_text(int number)
{
	for (size_t i = 0; i < sizeof(kernel_only) / sizeof(*kernel_only); i++)
		if (kernel_only[i].number == number)
			return kernel_only[i].text;
	return strerrordesc_np(number);
}
