/*
 * machine: what a host is called in every back end and over every boot: /etc/machine-id, as
 * machine-id(5) has it. Read once, before the engine gives up what it may see; from then on any
 * thread. In: the file; out: the id.
 */
#ifndef RINGTAIL_DAEMON_HOST_MACHINE_H
#define RINGTAIL_DAEMON_HOST_MACHINE_H

#define MACHINE_ID_BYTES 33	/* 32 digits, terminated */

/* The file of tests; NULL: /etc/machine-id. What is no machine id is left out. */
void machine_read_id(const char *path);

/* "": this host has none. */
const char *machine_id(void);

#endif
