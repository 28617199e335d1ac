/*
 * trigger_call: tells a URL that a rule fired, by one POST of a JSON object, tried again while nobody answers.
 *
 *	BEGUN --2xx--> answered
 *	      --no answer, 408, 429, 5xx--> WAITS --a second, then four--> BEGUN
 *	      --anything else, or for the third time--> failed
 *
 * What becomes of each is counted and logged. In: what fired. Out: requests, on the main loop, which never waits for
 * one. Main thread.
 */
#ifndef RINGTAIL_DAEMON_TRIGGER_CALL_H
#define RINGTAIL_DAEMON_TRIGGER_CALL_H

#include <event2/event.h>
#include <stdint.h>

struct trigger_calls;

/* ca_file: of authorities to believe instead of the system's; NULL: those. Copied. NULL: out of memory. */
struct trigger_calls *trigger_calls_create(struct event_base *base, const char *ca_file, uint64_t timeout_ns);

/* What is under way has failed. NULL is safe. */
void trigger_calls_destroy(struct trigger_calls *calls);

/* All borrowed for the call. */
struct trigger_call {
	const char *url;
	const char *trigger, *rule, *event;	/* the rule's name, and as it may be shown; what made it fire, as text */
	uint64_t fired_realtime_ns;
};

void trigger_call(struct trigger_calls *calls, const struct trigger_call *what);

#endif
