/*
 * machine: what this host is called in every back end and over every boot (/etc/machine-id, as machine-id(5)
 * has it), and the names of its users, which filters know. Both files are read once, before the engine loses
 * sight of them; from then on any thread. In: the files; out: the id, and user_names.
 */
#ifndef RINGTAIL_DAEMON_HOST_MACHINE_H
#define RINGTAIL_DAEMON_HOST_MACHINE_H

#define MACHINE_ID_BYTES	33		/* 32 digits, terminated */
#define MACHINE_USERS_BYTES_MAX	(1u << 20)	/* of the file; users beyond it have no name */

/* The file of tests; NULL: /etc/machine-id. What is no machine id is left out. */
void machine_read_id(const char *path);

/* "": this host has none. */
const char *machine_id(void);

/* NULL: /etc/passwd. If the file cannot be read, root alone has a name. */
void machine_read_users(const char *path);

#endif
