/*
 * stop: SIGINT and SIGTERM as a descriptor that becomes readable, so that commands end in order.
 */
#ifndef RINGTAIL_CLIENT_CLI_STOP_H
#define RINGTAIL_CLIENT_CLI_STOP_H

/*
 * From now on the first of these signals makes the returned descriptor readable, and it stays so; a second
 * one kills. SIGPIPE becomes EPIPE. -1: no descriptor was to be had; signals kill at once.
 */
int stop_init(void);

/* As such a signal does, from any thread. */
void stop_now(void);

#endif
