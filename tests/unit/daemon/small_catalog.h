/*
 * small_catalog: a few probes with every type of field, as a source would list them; for tests and
 * fuzzers of what reads a catalog.
 */
#ifndef RINGTAIL_TESTS_SMALL_CATALOG_H
#define RINGTAIL_TESTS_SMALL_CATALOG_H

#include "kmod/uapi/ringtail.h"
#include "proto/ringtail.pb-c.h"

enum {
	SMALL_READ		= RT_PROBE_SYSCALL_CALL + 0,
	SMALL_KILL		= RT_PROBE_SYSCALL_CALL + 62,
	SMALL_GETPPID		= RT_PROBE_SYSCALL_CALL + 110,
	SMALL_EXIT		= RT_PROBE_SYSCALL_CALL + 231,
	SMALL_OPENAT		= RT_PROBE_SYSCALL_CALL + 257,
	SMALL_OPENAT_ENTRY	= RT_PROBE_SYSCALL_ENTRY + 257,
	SMALL_OPENAT_RETURN	= RT_PROBE_SYSCALL_RETURN + 257,
};

static Ringtail__V1__Field small_duration, small_ret, small_fd, small_buf, small_count, small_dfd,
	small_filename, small_flags, small_mode, small_pid, small_sig, small_code, small_prev_prio,
	small_prev_state, small_next_tid, small_next_prio, small_target_tid, small_prio;

#define FIELDS(...) ((Ringtail__V1__Field *[]){ __VA_ARGS__ })
#define CALL &small_duration, &small_ret

static Ringtail__V1__Probe small_probe[9];
static Ringtail__V1__Probe *small_probes[9];
static Ringtail__V1__Catalog small_catalog;

static void small_field(Ringtail__V1__Field *field, const char *name, Ringtail__V1__FieldType type,
			uint32_t bits)
{
	ringtail__v1__field__init(field);
	field->name = (char *)name;
	field->type = type;
	field->bits = bits;
	field->c_type = (char *)"";
}

static void small_add(uint32_t id, const char *provider, const char *function, const char *name,
		      Ringtail__V1__Field *const *fields, size_t n)
{
	static Ringtail__V1__Field *words[64];
	static size_t used;
	Ringtail__V1__Probe *probe = &small_probe[small_catalog.n_probe];

	ringtail__v1__probe__init(probe);
	probe->id = id;
	probe->provider = (char *)provider;
	probe->function = (char *)function;
	probe->name = (char *)name;
	probe->n_field = n;
	probe->field = &words[used];
	for (size_t i = 0; i < n; i++)
		words[used++] = fields[i];
	small_probes[small_catalog.n_probe++] = probe;
}

#define ADD(id, provider, function, name, ...) \
	small_add(id, provider, function, name, FIELDS(__VA_ARGS__), \
		  sizeof(FIELDS(__VA_ARGS__)) / sizeof(Ringtail__V1__Field *))

/* The catalog; the same one every time. */
static inline const Ringtail__V1__Catalog *small_catalog_get(void)
{
#define TYPE(type) RINGTAIL__V1__FIELD_TYPE__FIELD_##type
	if (small_catalog.n_probe)
		return &small_catalog;
	ringtail__v1__catalog__init(&small_catalog);
	small_catalog.probe = small_probes;
	small_field(&small_duration, "duration_ns", TYPE(DURATION), 64);
	small_field(&small_ret, "ret", TYPE(RESULT), 64);
	small_field(&small_fd, "fd", TYPE(FD), 32);
	small_field(&small_buf, "buf", TYPE(HEX), 64);
	small_field(&small_count, "count", TYPE(UNSIGNED), 0);
	small_field(&small_dfd, "dfd", TYPE(FD), 32);
	small_field(&small_filename, "filename", TYPE(STRING), 64);
	small_field(&small_flags, "flags", TYPE(HEX), 32);
	small_field(&small_mode, "mode", TYPE(UNSIGNED), 16);
	small_field(&small_pid, "pid", TYPE(SIGNED), 32);
	small_field(&small_sig, "sig", TYPE(SIGNED), 32);
	small_field(&small_code, "error_code", TYPE(SIGNED), 32);
	small_field(&small_prev_prio, "prev_prio", TYPE(SIGNED), 32);
	small_field(&small_prev_state, "prev_state", TYPE(HEX), 64);
	small_field(&small_next_tid, "next_tid", TYPE(THREAD), 32);
	small_field(&small_next_prio, "next_prio", TYPE(SIGNED), 32);
	small_field(&small_target_tid, "target_tid", TYPE(THREAD), 32);
	small_field(&small_prio, "prio", TYPE(SIGNED), 32);
	ADD(SMALL_READ, "syscall", "read", "call", CALL, &small_fd, &small_buf, &small_count);
	ADD(SMALL_KILL, "syscall", "kill", "call", CALL, &small_pid, &small_sig);
	ADD(SMALL_GETPPID, "syscall", "getppid", "call", CALL);
	ADD(SMALL_EXIT, "syscall", "exit_group", "call", CALL, &small_code);
	ADD(SMALL_OPENAT, "syscall", "openat", "call", CALL, &small_dfd, &small_filename,
	    &small_flags, &small_mode);
	ADD(SMALL_OPENAT_ENTRY, "syscall", "openat", "entry", &small_dfd, &small_filename,
	    &small_flags, &small_mode);
	ADD(SMALL_OPENAT_RETURN, "syscall", "openat", "return", &small_ret);
	ADD(RT_PROBE_SCHED_SWITCH, "tracepoint", "sched", "sched_switch", &small_prev_prio,
	    &small_prev_state, &small_next_tid, &small_next_prio);
	ADD(RT_PROBE_SCHED_WAKEUP, "tracepoint", "sched", "sched_wakeup", &small_target_tid,
	    &small_prio);
	return &small_catalog;
#undef TYPE
}

#undef ADD
#undef CALL
#undef FIELDS

#endif
