/*
 * device_names: what a block device is called here, by the number that a tracepoint has of it.
 *
 * In: events of tracepoints. Out: of each field of the type dev_t, the name in sysfs, if the traced host is this one. Names
 * are looked up again after a second: a device may come and go. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_DEVICE_NAMES_H
#define RINGTAIL_CLIENT_CLI_DEVICE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/out.h"
#include "client/lib/ringtail.h"

#define DEVICE_NAMES_KEPT	16	/* a power of two */
#define DEVICE_NAME_BYTES	64	/* with its NUL; a longer one is not shown */

/* All zeros at first. */
struct device_names {
	bool asked, here;		/* whether the traced host is this one, whose devices we know */
	const char *directory;		/* where they are looked for; NULL: in sysfs */
	struct device_name {
		uint64_t device;
		uint64_t until_ns;	/* 0: it was not looked for */
		char name[DEVICE_NAME_BYTES];	/* empty: it has none */
	} name[DEVICE_NAMES_KEPT];
};

/* " [dev=vda]"; nothing if no device of the event has a name. */
void device_names_put_text(struct out *out, struct device_names *names,
			   const struct ringtail_host *host, const struct ringtail_item *event);

/* A member of an object, after a comma: ,"devices":{"dev":"vda"}; or nothing. */
void device_names_put_json(struct out *out, struct device_names *names,
			   const struct ringtail_host *host, const struct ringtail_item *event);

#endif
