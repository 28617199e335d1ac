#include "daemon/host/machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "query/user_names.h"

static char id[MACHINE_ID_BYTES];

void machine_read_id(const char *path)
{
	int fd = open(path ? path : "/etc/machine-id", O_RDONLY | O_CLOEXEC);
	char text[MACHINE_ID_BYTES] = "";
	ssize_t got = fd < 0 ? -1 : read(fd, text, MACHINE_ID_BYTES);

	if (fd >= 0)
		close(fd);
	id[0] = '\0';
	/* "uninitialized" is what an image has before its first boot. */
	if (got < MACHINE_ID_BYTES - 1 ||
	    strspn(text, "0123456789abcdef") < MACHINE_ID_BYTES - 1)
		return;
	memcpy(id, text, MACHINE_ID_BYTES - 1);
}

const char *machine_id(void)
{
	return id;
}

void machine_read_users(const char *path)
{
	static char text[MACHINE_USERS_BYTES_MAX + 1];
	FILE *file = fopen(path ? path : "/etc/passwd", "re");

	if (!file)
		return;
	text[fread(text, 1, MACHINE_USERS_BYTES_MAX, file)] = '\0';
	fclose(file);
	user_names_set(text);
}
