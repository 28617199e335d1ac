#include "client/cli/device_names.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/symbols.h"
#include "client/cli/text_value.h"

#define DIRECTORY	"/sys/dev/block"
#define KEPT_NS		1000000000u

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* sysfs has a link there, whose last part is the name; what would be a slash in it is an exclamation mark. */
static void look(const struct device_names *names, struct device_name *of)
{
	char path[256], target[512];
	const char *name;
	ssize_t bytes;

	of->name[0] = '\0';
	snprintf(path, sizeof(path), "%s/%u:%u", names->directory ? names->directory : DIRECTORY,
		 text_device_major(of->device), text_device_minor(of->device));
	bytes = readlink(path, target, sizeof(target) - 1);
	if (bytes <= 0)
		return;
	target[bytes] = '\0';
	name = strrchr(target, '/');
	name = name ? name + 1 : target;
	if (strlen(name) < sizeof(of->name))
		strcpy(of->name, name);
	for (char *at = of->name; *at; at++)
		if (*at == '!')
			*at = '/';
}

/* NULL: the device has no name, or it is a device of another host or boot. */
static const char *find(struct device_names *names, const struct ringtail_host *host, uint64_t device)
{
	struct device_name *of = &names->name[device & (DEVICE_NAMES_KEPT - 1)];
	uint64_t now = now_ns();

	if (!names->asked) {
		names->asked = true;
		names->here = symbols_same_boot(host->boot_id);
	}
	if (!names->here)
		return NULL;
	if (of->device != device || of->until_ns <= now) {
		of->device = device;
		of->until_ns = now + KEPT_NS;
		look(names, of);
	}
	return of->name[0] ? of->name : NULL;
}

/* The name of the device in that field; NULL: the field holds no device, or one without a name. */
static const char *name_of(struct device_names *names, const struct ringtail_host *host,
			   const struct ringtail_item *event, unsigned number)
{
	const struct ringtail_field *field = &event->probe->field[number];

	return text_is_device(field) ? find(names, host, ringtail_value(field, event->value[number])) :
				       NULL;
}

/* Only tracepoints have fields of the type of a device: in a system call it is a number that the program wrote. */
static unsigned fields_of(const struct ringtail_item *event)
{
	return event->probe->kind == RINGTAIL_TRACEPOINT ? event->probe->fields : 0;
}

void device_names_put_text(struct out *out, struct device_names *names,
			   const struct ringtail_host *host, const struct ringtail_item *event)
{
	char separator = '[';

	for (unsigned i = 0; i < fields_of(event); i++) {
		const char *name = name_of(names, host, event, i);

		if (!name)
			continue;
		if (separator == '[')
			out_char(out, ' ');
		out_char(out, separator);
		separator = ' ';
		out_text(out, event->probe->field[i].name);
		out_char(out, '=');
		out_visible(out, name);
	}
	if (separator == ' ')
		out_char(out, ']');
}

void device_names_put_json(struct out *out, struct device_names *names,
			   const struct ringtail_host *host, const struct ringtail_item *event)
{
	char separator = '{';

	for (unsigned i = 0; i < fields_of(event); i++) {
		const char *name = name_of(names, host, event, i);

		if (!name)
			continue;
		if (separator == '{')
			out_literal(out, ",\"devices\":");
		out_char(out, separator);
		separator = ',';
		json_quote_text(out, event->probe->field[i].name);
		out_char(out, ':');
		json_quote_text(out, name);
	}
	if (separator == ',')
		out_char(out, '}');
}
