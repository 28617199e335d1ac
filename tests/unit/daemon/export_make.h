/* export_make: a small host and events of it, for the tests of exporters. */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_EXPORT_MAKE_H
#define RINGTAIL_TESTS_UNIT_DAEMON_EXPORT_MAKE_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/event.h"
#include "daemon/export/run.h"

#define MAKE_DURATION	RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION
#define MAKE_RESULT	RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT
#define MAKE_UNSIGNED	RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED
#define MAKE_STRING	RINGTAIL__V1__FIELD_TYPE__FIELD_STRING
#define MAKE_MORE	RINGTAIL__V1__FIELD_TYPE__FIELD_MORE

/* Ids of the probes below. */
enum make_probe { MAKE_OPENAT, MAKE_READ, MAKE_EXIT_GROUP, MAKE_FORK, MAKE_EXEC, MAKE_EXIT,
		  MAKE_PROBES };

static Ringtail__V1__Field make_field[MAKE_PROBES][3];
static Ringtail__V1__Field *make_fields[MAKE_PROBES][3];
static Ringtail__V1__Probe make_probe[MAKE_PROBES];
static Ringtail__V1__Probe *make_probes[MAKE_PROBES];

/* Destroy it with export_host_destroy(). tree: a glob of export-trace, or NULL. */
static inline struct export_host *make_host(uint64_t slow_ns, const char *tree)
{
	static const struct {
		const char *function, *name, *field[3];
		int type[3];
	} row[MAKE_PROBES] = {
		{"openat", "call", {"duration_ns", "ret", "dfd"},
		 {MAKE_DURATION, MAKE_RESULT, MAKE_UNSIGNED}},
		{"read", "call", {"duration_ns", "ret", "fd"},
		 {MAKE_DURATION, MAKE_RESULT, MAKE_UNSIGNED}},
		{"exit_group", "call", {"duration_ns", "ret", "error_code"},
		 {MAKE_DURATION, MAKE_RESULT, MAKE_UNSIGNED}},
		{"sched", "sched_process_fork", {"child_tid", "child_pid", ""}, {0, 0, MAKE_MORE}},
		{"sched", "sched_process_exec", {"old_tid", "filename"}, {0, MAKE_STRING}},
		{"sched", "sched_process_exit", {"prio", "group_dead"}, {0, 0}},
	};
	static const uint8_t boot_id[16] = "0123456789abcde";
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	struct config config = {.slow_call_ns = slow_ns};
	struct export_host *host;

	for (unsigned i = 0; i < MAKE_PROBES; i++) {
		ringtail__v1__probe__init(&make_probe[i]);
		make_probe[i].id = i;
		make_probe[i].provider = (char *)(i < MAKE_FORK ? "syscall" : "tracepoint");
		make_probe[i].function = (char *)row[i].function;
		make_probe[i].name = (char *)row[i].name;
		make_probe[i].field = make_fields[i];
		for (unsigned j = 0; j < 3 && row[i].field[j]; j++) {
			ringtail__v1__field__init(&make_field[i][j]);
			make_field[i][j].name = (char *)row[i].field[j];
			make_field[i][j].type = row[i].type[j];
			make_fields[i][j] = &make_field[i][j];
			make_probe[i].n_field = j + 1;
		}
		make_probes[i] = &make_probe[i];
	}
	catalog.probe = make_probes;
	catalog.n_probe = MAKE_PROBES;
	if (tree) {
		config.export_trace.word[0] = (char *)tree;
		config.export_trace.count = 1;
	}
	host = export_host_create(&catalog, boot_id, 7, &config);
	assert(host);
	return host;
}

/* An event of a process' first thread. export_event_destroy() it. */
static inline struct export_event *make_event(const struct export_host *host,
					      enum make_probe probe, uint32_t pid,
					      const char *comm, uint64_t time_ns, uint64_t a,
					      uint64_t b, uint64_t c)
{
	static uint64_t seq;
	const uint64_t field[3] = {a, b, c};
	struct batch_thread thread = {.tid = pid, .pid = pid, .ppid = 1, .uid = 1000};
	struct batch_item item = {.kind = BATCH_EVENT, .seq = ++seq, .thread = &thread};
	struct export_event *event;

	snprintf(thread.comm, sizeof(thread.comm), "%s", comm);
	item.event.probe = (uint16_t)probe;
	item.event.fields = host->run->shape[probe].fields;
	item.event.has_duration = host->run->shape[probe].has_duration;
	item.event.time_ns = time_ns;
	item.event.field = field;
	event = export_event_create(host->run, 1, &item);
	assert(event);
	return event;
}

#endif
