/*
 * What each kind says of each sort of event, to the letter: every attribute under its name, whose value is
 * read as its field's type says, and nothing where nothing is known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/kind.h"
#include "proto/export/loki.pb-c.h"
#include "proto/export/otlp.pb-c.h"
#include "proto/batch_encode.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/export_show.h"

#define FIELD(type) RINGTAIL__V1__FIELD_TYPE__FIELD_##type
#define FIELDS	6u
#define ID	"3f2a5cbd1e9047d6a8b1c2d3e4f5061728394a5b6c7d8e9f00112233445566aa"
#define POD	"0f4ee4f9-c1d1-4d5c-8f3b-6a1f0c2b7a11"
#define IN_POD	"/kubepods/burstable/pod" POD "/docker-" ID ".scope"
#define MS	1000000ull
#define NEVER	RT_DURATION_NEVER
#define THREAD	"process.pid=7 process.parent_pid=6 process.user.id=5 thread.id=8 thread.name='sixteen-letters-' "
#define LOKI_THREAD	"pid='7' tid='8' comm='sixteen-letters-' cpu='3' "
#define NOTHING_ELSE "ringtail.syscall.arg.dfd=0 ringtail.syscall.arg.filename='0x0' ringtail.syscall.arg.flags='0x0'" \
		     " ringtail.syscall.arg.mode=0"

enum { OPENAT, CONNECT, BIND, MMAP, EXIT_GROUP, EXIT, EXEC, RQ, PROBES };

static const struct {
	const char *function, *name;
	struct {
		const char *name;
		int type;
		unsigned bits, bytes;
		const char *c_type;
	} field[FIELDS];
} table[PROBES] = {
#define CALL {"duration_ns", FIELD(DURATION), 64, 8, ""}, {"ret", FIELD(RESULT), 64, 8, ""}
	{"openat", "call", {CALL, {"dfd", FIELD(FD), 64, 8, ""}, {"filename", FIELD(STRING), 64, 8, ""},
			    {"flags", FIELD(HEX), 32, 8, ""}, {"mode", FIELD(UNSIGNED), 16, 8, ""}}},
	{"connect", "call", {CALL, {"fd", FIELD(FD), 0, 8, ""},
			     {"uservaddr", FIELD(STRING), 64, 8, "struct sockaddr *"}}},
	{"bind", "call", {CALL, {"umyaddr", FIELD(STRING), 64, 8, "struct sockaddr *"}}},
	{"mmap", "call", {CALL}},
	{"exit_group", "call", {CALL, {"error_code", FIELD(SIGNED), 32, 8, ""}}},
	{"sched", "sched_process_exit", {{"prio", FIELD(UNSIGNED), 0, 8, ""}, {"group_dead", FIELD(UNSIGNED), 0, 8, ""},
					 {"exit_code", FIELD(UNSIGNED), 0, 8, ""}}},
	{"sched", "sched_process_exec", {{"old_tid", FIELD(UNSIGNED), 0, 8, ""}, {"filename", FIELD(STRING), 0, 8, ""}}},
	{"block", "rq", {{"a", FIELD(SIGNED), 8, 1, ""}, {"b", FIELD(HEX), 0, 8, ""}, {"c", FIELD(TEXT), 0, 12, ""},
			 {"", FIELD(MORE), 0, 8, ""}, {"d", FIELD(UNSIGNED), 16, 2, ""}, {"e", FIELD(TEXT), 0, 0, ""}}},
};

struct said {
	int probe;
	enum export_class class;
	uint64_t field[FIELDS];
	const char *string[3];		/* of the field `at`, and those behind it */
	unsigned at;
	const char *exe, *cgroup;
};

static bool orphaned;			/* from the second event on */

static Ringtail__V1__Field fields[PROBES][FIELDS];
static Ringtail__V1__Field *field_list[PROBES][FIELDS];
static Ringtail__V1__Probe probes[PROBES];

static struct export_host *make_host(void)
{
	static const uint8_t boot_id[16] = "0123456789abcde";
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Probe *list[PROBES];
	struct config config = {.slow_call_ns = MS};
	struct export_host *host;

	for (unsigned i = 0; i < PROBES; i++) {
		ringtail__v1__probe__init(&probes[i]);
		probes[i].id = i;
		probes[i].function = (char *)table[i].function;
		probes[i].name = (char *)table[i].name;
		probes[i].field = field_list[i];
		for (unsigned j = 0; j < FIELDS && table[i].field[j].name; j++) {
			ringtail__v1__field__init(&fields[i][j]);
			fields[i][j].name = (char *)table[i].field[j].name;
			fields[i][j].type = (Ringtail__V1__FieldType)table[i].field[j].type;
			fields[i][j].bits = table[i].field[j].bits;
			fields[i][j].bytes = table[i].field[j].bytes;
			fields[i][j].c_type = (char *)table[i].field[j].c_type;
			field_list[i][j] = &fields[i][j];
			probes[i].n_field = j + 1;
		}
		list[i] = &probes[i];
	}
	catalog.probe = list;
	catalog.n_probe = PROBES;
	host = export_host_create(&catalog, boot_id, 7, &config);
	assert_non_null(host);
	strcpy(host->run->name, "box");
	strcpy(host->run->kernel, "6.1");
	strcpy(host->run->machine, "x86_64");
	strcpy(host->run->host_id, "8d7f");
	return host;
}

static struct batch_text text_of(const char *text)
{
	return (struct batch_text){.serial = 1, .data = text, .bytes = text ? (uint32_t)strlen(text) : 0};
}

static struct export_event *make(const struct export_host *host, const struct said *said, uint64_t time_ns)
{
	struct batch_attachment attachment[3];
	struct batch_text exe = text_of(said->exe), cgroup = text_of(said->cgroup);
	struct batch_thread thread = {.tid = 8, .pid = 7, .ppid = orphaned && time_ns > 5000 * MS ? 1 : 6, .uid = 5,
				      .comm = "sixteen-letters-",
				      .exe = said->exe ? &exe : NULL, .cgroup = said->cgroup ? &cgroup : NULL};
	struct batch_item item = {.kind = BATCH_EVENT, .seq = time_ns, .thread = &thread, .attachment = attachment};
	struct export_event *event;

	while (item.attachments < 3 && said->string[item.attachments]) {
		attachment[item.attachments] = (struct batch_attachment){
			.kind = RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_STRING, .arg = said->at + (uint32_t)item.attachments,
			.text = (const uint8_t *)said->string[item.attachments],
			.text_bytes = strlen(said->string[item.attachments]),
		};
		item.attachments++;
	}
	item.event = (struct batch_event){.probe = (uint16_t)said->probe, .time_ns = time_ns, .field = said->field,
					  .fields = host->run->shape[said->probe].fields,
					  .has_duration = host->run->shape[said->probe].has_duration};
	event = export_event_create(host->run, 3, &item);
	assert_non_null(event);
	event->class = said->class;
	return event;
}

/* A body of those events, one after the other at 5 s and each nanosecond after, told as of a clock 1 us ahead. */
static void *build(const struct export_kind *kind, const ProtobufCMessageDescriptor *type, const struct said *said,
		   unsigned n, const struct export_span *span)
{
	struct export_host *host = make_host();
	struct export_arena arena = {0};
	struct export_maker maker = {host->run, &arena, 1000};
	struct export_list list = TAILQ_HEAD_INITIALIZER(list);
	struct export_body body = {0};
	struct export_event *event;
	void *message;

	for (unsigned i = 0; i < n; i++) {
		event = make(host, &said[i], 5000 * MS + i);
		if (span)
			event->span = span[i];
		TAILQ_INSERT_TAIL(&list, event, link);
	}
	assert_int_equal(kind->build(&maker, &list, &body), 0);
	while ((event = TAILQ_FIRST(&list)) != NULL) {
		TAILQ_REMOVE(&list, event, link);
		export_event_destroy(event);
	}
	message = protobuf_c_message_unpack(type, NULL, body.bytes, body.data);
	assert_non_null(message);
	free(body.data);
	export_arena_fini(&arena);
	export_host_destroy(host);
	return message;
}

/* Shows messages, a line each, and compares them with what is wanted. */
static void expect(void *list, size_t n, const char *const *wanted, size_t wanted_n)
{
	const ProtobufCMessage *const *message = list;

	for (size_t i = 0; i < n; i++) {
		char *text = NULL;
		size_t bytes;
		FILE *out = open_memstream(&text, &bytes);

		show(out, message[i]);
		fclose(out);
		if (i >= wanted_n || strcmp(text, wanted[i]) != 0)
			fail_msg("%zu:\n%s\nwanted:\n%s", i, text, i < wanted_n ? wanted[i] : "nothing");
		free(text);
	}
	assert_int_equal(n, wanted_n);
}
#define EXPECT(list, n, wanted) expect(list, n, wanted, sizeof(wanted) / sizeof(wanted[0]))

static const struct said said[] = {
	/* 0: in a container, with its file */
	{OPENAT, EXPORT_SLOW, {2 * MS, 3, (uint32_t)-100, 0x7f00, 0xffff00000241, 0xffff01a4},
	 {"/etc/passwd"}, 3, "/usr/bin/cat", IN_POD},
	/* 1: in a unit, that failed, without its file */
	{OPENAT, EXPORT_ERROR, {999, (uint64_t)-ENOSPC, 4, 0x7f00, 0, 0}, {0}, 0, "cat", "/system.slice/a.service"},
	/* 2-6: sockets' addresses */
	{CONNECT, EXPORT_ERROR, {999999, (uint64_t)-ECONNREFUSED, 4, 0x7f00}, {"10.1.2.3:443"}, 3, NULL, NULL},
	{BIND, EXPORT_ERROR, {1000000, (uint64_t)-EADDRINUSE, 0x7f00}, {"[::1]:80"}, 2, NULL, NULL},
	{CONNECT, EXPORT_ERROR, {999999999, (uint64_t)-EACCES, 4, 0x7f00}, {"/run/x"}, 3, NULL, NULL},
	{CONNECT, EXPORT_EVENT, {1000000000, 0, 4, 0x7f00}, {"family 16"}, 3, NULL, NULL},
	{CONNECT, EXPORT_EVENT, {1, 0, 4, 0x7f00}, {"12 is no address"}, 3, NULL, NULL},
	/* 7-9: results */
	{MMAP, EXPORT_EVENT, {1, 0x7f0000001000}, {0}, 0, NULL, NULL},
	{MMAP, EXPORT_EVENT, {1, (uint64_t)-4095}, {0}, 0, NULL, NULL},
	{MMAP, EXPORT_EVENT, {1, (uint64_t)-4096}, {0}, 0, NULL, NULL},
	/* 10-14: ends, and beginnings */
	{EXIT_GROUP, EXPORT_EXIT, {NEVER, 0, (uint32_t)-1}, {0}, 0, NULL, NULL},
	{EXIT, EXPORT_EXIT, {120, 1, 0x8b}, {0}, 0, NULL, NULL},
	{EXIT, EXPORT_EXIT, {120, 1, 0}, {0}, 0, NULL, NULL},
	{EXEC, EXPORT_EXEC, {9, 0}, {"/bin/sh"}, 1, "/usr/bin/dash", NULL},
	{EXEC, EXPORT_EXEC, {9, 0}, {"/bin/sh"}, 1, NULL, NULL},
	/* 15: of another provider; its texts are in its words */
	{RQ, EXPORT_EVENT, {0xff, 0xabc, 0x6867666564636261, 0x6c6b6a69, 0x12345, 7}, {0}, 0, NULL, NULL},
};
#define SAID (sizeof(said) / sizeof(said[0]))

static void otlp_logs(void **state)
{
	static const char *const wanted[] = {
		"{time_unix_nano=5000001000 severity_number=13 severity_text='WARN' body='sixteen-letters-[7]: "
		"openat(dfd=-100, filename=\"/etc/passwd\", flags=0x241, mode=420) = 3 <2.000ms>' attributes=[" THREAD
		"process.executable.name='cat' process.executable.path='/usr/bin/cat' process.linux.cgroup='" IN_POD
		"' container.id='" ID "' container.runtime='docker' k8s.pod.uid='" POD "' ringtail.cpu=3 "
		"ringtail.class='slow' ringtail.syscall.name='openat' ringtail.syscall.arg.dfd=-100 "
		"ringtail.syscall.arg.filename='\"/etc/passwd\"' ringtail.syscall.arg.flags='0x241' "
		"ringtail.syscall.arg.mode=420 ringtail.syscall.duration_ns=2000000 ringtail.syscall.ret=3] "
		"trace_id=24bd8d741bc31f518780421bd9cda596 span_id=c8622a2f479b14b4 "
		"observed_time_unix_nano=5000001000 event_name='ringtail.syscall.openat'}",
		"{time_unix_nano=5000001001 severity_number=17 severity_text='ERROR' body='sixteen-letters-[7]: "
		"openat(dfd=4, filename=0x7f00, flags=0x0, mode=0) = -1 ENOSPC (No space left on device) <0.999us>' "
		"attributes=[" THREAD "process.executable.name='cat' process.linux.cgroup='/system.slice/a.service' "
		"ringtail.systemd.unit='a.service' ringtail.cpu=3 ringtail.class='error' "
		"ringtail.syscall.name='openat' ringtail.syscall.arg.dfd=4 ringtail.syscall.arg.filename='0x7f00' "
		"ringtail.syscall.arg.flags='0x0' ringtail.syscall.arg.mode=0 ringtail.syscall.duration_ns=999 "
		"ringtail.syscall.ret=-28 error.type='ENOSPC'] observed_time_unix_nano=5000001001 "
		"event_name='ringtail.syscall.openat'}",
		"{time_unix_nano=5000001002 severity_number=17 severity_text='ERROR' body='sixteen-letters-[7]: "
		"connect(fd=4, uservaddr=\"10.1.2.3:443\") = -1 ECONNREFUSED (Connection refused) <999.999us>' "
		"attributes=[" THREAD "ringtail.cpu=3 ringtail.class='error' ringtail.syscall.name='connect' "
		"ringtail.syscall.arg.fd=4 ringtail.syscall.arg.uservaddr='\"10.1.2.3:443\"' network.peer.port=443 "
		"network.peer.address='10.1.2.3' ringtail.syscall.duration_ns=999999 ringtail.syscall.ret=-111 "
		"error.type='ECONNREFUSED'] observed_time_unix_nano=5000001002 event_name='ringtail.syscall.connect'}",
		"{time_unix_nano=5000001003 severity_number=17 severity_text='ERROR' body='sixteen-letters-[7]: "
		"bind(umyaddr=\"[::1]:80\") = -1 EADDRINUSE (Address already in use) <1.000ms>' attributes=[" THREAD
		"ringtail.cpu=3 ringtail.class='error' ringtail.syscall.name='bind' "
		"ringtail.syscall.arg.umyaddr='\"[::1]:80\"' network.local.port=80 network.local.address='::1' "
		"ringtail.syscall.duration_ns=1000000 ringtail.syscall.ret=-98 error.type='EADDRINUSE'] "
		"observed_time_unix_nano=5000001003 event_name='ringtail.syscall.bind'}",
		"{time_unix_nano=5000001004 severity_number=17 severity_text='ERROR' body='sixteen-letters-[7]: "
		"connect(fd=4, uservaddr=\"/run/x\") = -1 EACCES (Permission denied) <999.999ms>' attributes=[" THREAD
		"ringtail.cpu=3 ringtail.class='error' ringtail.syscall.name='connect' ringtail.syscall.arg.fd=4 "
		"ringtail.syscall.arg.uservaddr='\"/run/x\"' network.peer.address='/run/x' "
		"ringtail.syscall.duration_ns=999999999 ringtail.syscall.ret=-13 error.type='EACCES'] "
		"observed_time_unix_nano=5000001004 event_name='ringtail.syscall.connect'}",
		"{time_unix_nano=5000001005 severity_number=9 severity_text='INFO' body='sixteen-letters-[7]: "
		"connect(fd=4, uservaddr=\"family 16\") = 0 <1.000s>' attributes=[" THREAD "ringtail.cpu=3 "
		"ringtail.class='event' ringtail.syscall.name='connect' ringtail.syscall.arg.fd=4 "
		"ringtail.syscall.arg.uservaddr='\"family 16\"' ringtail.syscall.duration_ns=1000000000 "
		"ringtail.syscall.ret=0] observed_time_unix_nano=5000001005 event_name='ringtail.syscall.connect'}",
		"{time_unix_nano=5000001006 severity_number=9 severity_text='INFO' body='sixteen-letters-[7]: "
		"connect(fd=4, uservaddr=\"12 is no address\") = 0 <0.001us>' attributes=[" THREAD "ringtail.cpu=3 "
		"ringtail.class='event' ringtail.syscall.name='connect' ringtail.syscall.arg.fd=4 "
		"ringtail.syscall.arg.uservaddr='\"12 is no address\"' ringtail.syscall.duration_ns=1 "
		"ringtail.syscall.ret=0] observed_time_unix_nano=5000001006 event_name='ringtail.syscall.connect'}",
		"{time_unix_nano=5000001007 severity_number=9 severity_text='INFO' body='sixteen-letters-[7]: mmap() "
		"= 0x7f0000001000 <0.001us>' attributes=[" THREAD "ringtail.cpu=3 ringtail.class='event' "
		"ringtail.syscall.name='mmap' ringtail.syscall.duration_ns=1 ringtail.syscall.ret=139637976731648] "
		"observed_time_unix_nano=5000001007 event_name='ringtail.syscall.mmap'}",
		"{time_unix_nano=5000001008 severity_number=9 severity_text='INFO' body='sixteen-letters-[7]: mmap() "
		"= -4095 <0.001us>' attributes=[" THREAD "ringtail.cpu=3 ringtail.class='event' "
		"ringtail.syscall.name='mmap' ringtail.syscall.duration_ns=1 ringtail.syscall.ret=-4095] "
		"observed_time_unix_nano=5000001008 event_name='ringtail.syscall.mmap'}",
		"{time_unix_nano=5000001009 severity_number=9 severity_text='INFO' body='sixteen-letters-[7]: mmap() "
		"= 0xfffffffffffff000 <0.001us>' attributes=[" THREAD "ringtail.cpu=3 ringtail.class='event' "
		"ringtail.syscall.name='mmap' ringtail.syscall.duration_ns=1 ringtail.syscall.ret=-4096] "
		"observed_time_unix_nano=5000001009 event_name='ringtail.syscall.mmap'}",
		"{time_unix_nano=5000001010 severity_number=13 severity_text='WARN' body='sixteen-letters-[7]: "
		"exit_group(error_code=-1) = ?' attributes=[" THREAD "ringtail.cpu=3 ringtail.class='exit' "
		"ringtail.syscall.name='exit_group' ringtail.syscall.arg.error_code=-1] "
		"observed_time_unix_nano=5000001010 event_name='ringtail.syscall.exit_group'}",
		"{time_unix_nano=5000001011 severity_number=13 severity_text='WARN' body='sixteen-letters-[7]: killed "
		"by SIGSEGV' attributes=[" THREAD "ringtail.cpu=3 ringtail.class='exit' ringtail.signal='SIGSEGV' "
		"ringtail.event.prio=120 ringtail.event.group_dead=1 ringtail.event.exit_code=139] "
		"observed_time_unix_nano=5000001011 event_name='ringtail.sched_process_exit'}",
		"{time_unix_nano=5000001012 severity_number=13 severity_text='WARN' body='sixteen-letters-[7]: killed "
		"by a signal' attributes=[" THREAD "ringtail.cpu=3 ringtail.class='exit' ringtail.event.prio=120 "
		"ringtail.event.group_dead=1 ringtail.event.exit_code=0] observed_time_unix_nano=5000001012 "
		"event_name='ringtail.sched_process_exit'}",
		"{time_unix_nano=5000001013 severity_number=9 severity_text='INFO' body='sixteen-letters-[7]: runs "
		"/bin/sh' attributes=[" THREAD "process.executable.name='dash' "
		"process.executable.path='/usr/bin/dash' ringtail.cpu=3 ringtail.class='exec' "
		"ringtail.event.old_tid=9 ringtail.event.filename='\"/bin/sh\"'] observed_time_unix_nano=5000001013 "
		"event_name='ringtail.sched_process_exec'}",
		"{time_unix_nano=5000001014 severity_number=9 severity_text='INFO' body='sixteen-letters-[7]: runs "
		"/bin/sh' attributes=[" THREAD "ringtail.cpu=3 ringtail.class='exec' "
		"process.executable.path='/bin/sh'] observed_time_unix_nano=5000001014 "
		"event_name='ringtail.sched_process_exec'}",
		"{time_unix_nano=5000001015 severity_number=9 severity_text='INFO' body='sixteen-letters-[7]: "
		"rq(a=-1, b=0xabc, c=\"abcdefghijkl\", d=9029, e=7)' attributes=[" THREAD "ringtail.cpu=3 "
		"ringtail.class='event' ringtail.event.a=-1 ringtail.event.b='0xabc' "
		"ringtail.event.c='\"abcdefghijkl\"' ringtail.event.d=9029 ringtail.event.e='7'] "
		"observed_time_unix_nano=5000001015 event_name='ringtail.rq'}",
	};
	static const char *const around[] = {
		"{resource={attributes=[service.name='ringtail' service.version=" "'" RINGTAIL_VERSION "'" " "
		"service.instance.id='box' host.name='box' host.id='8d7f' "
		"ringtail.boot.id='30313233-3435-3637-3839-616263646500' host.arch='amd64' os.type='linux' "
		"os.version='6.1']} scope_logs=[{scope={name='ringtail' version=" "'" RINGTAIL_VERSION "'" "} "
		"schema_url='https://opentelemetry.io/schemas/1.29.0'}] "
		"schema_url='https://opentelemetry.io/schemas/1.29.0'}",
	};
	Ringtail__Otlp__LogsRequest *request = build(&export_otlp_logs, &ringtail__otlp__logs_request__descriptor, said,
						     SAID, NULL);
	Ringtail__Otlp__ResourceLogs *resource = request->resource_logs[0];
	Ringtail__Otlp__ScopeLogs *scope = resource->scope_logs[0];

	(void)state;
	EXPECT(scope->log_records, scope->n_log_records, wanted);
	scope->n_log_records = 0;
	EXPECT(request->resource_logs, request->n_resource_logs, around);
	scope->n_log_records = SAID;
	protobuf_c_message_free_unpacked(&request->base, NULL);
}

/* A thread whose parent ended has another one from then on, in the same body. */
static void parent_as_it_was_at_each_event(void **state)
{
	const struct said call = {MMAP, EXPORT_EVENT, {1, 0}, {0}, 0, NULL, NULL}, calls[] = {call, call, call};
	Ringtail__Otlp__LogsRequest *request;
	const Ringtail__Otlp__ScopeLogs *scope;

	(void)state;
	orphaned = true;
	request = build(&export_otlp_logs, &ringtail__otlp__logs_request__descriptor, calls, 3, NULL);
	orphaned = false;
	scope = request->resource_logs[0]->scope_logs[0];
	assert_int_equal(scope->n_log_records, 3);
	for (unsigned i = 0; i < 3; i++) {
		const Ringtail__Otlp__KeyValue *parent = scope->log_records[i]->attributes[1];

		assert_string_equal(parent->key, "process.parent_pid");
		assert_int_equal(parent->value->int_value, i ? 1 : 6);
	}
	protobuf_c_message_free_unpacked(&request->base, NULL);
}

static void loki(void **state)
{
	static const char *const wanted[] = {
		"{labels='{class=\"slow\", host=\"box\", service=\"ringtail\"}' entries=[{timestamp={seconds=5 "
		"nanos=1000} line='sixteen-letters-[7]: openat(dfd=-100, filename=\"/etc/passwd\", flags=0x241, "
		"mode=420) = 3 <2.000ms>' structured_metadata=[level='warn' " LOKI_THREAD "event='openat' ppid='6' "
		"uid='5' exe='cat' exe_path='/usr/bin/cat' cgroup='" IN_POD "' container='" ID "' "
		"container_runtime='docker' pod='" POD "' path='/etc/passwd' duration_ns='2000000' ret='3' "
		"trace_id='24bd8d741bc31f518780421bd9cda596']}]}",
		"{labels='{class=\"error\", host=\"box\", service=\"ringtail\"}' entries=[{timestamp={seconds=5 "
		"nanos=1001} line='sixteen-letters-[7]: openat(dfd=4, filename=0x7f00, flags=0x0, mode=0) = -1 ENOSPC "
		"(No space left on device) <0.999us>' structured_metadata=[level='error' " LOKI_THREAD
		"event='openat' ppid='6' uid='5' exe='cat' cgroup='/system.slice/a.service' unit='a.service' "
		"errno='ENOSPC' duration_ns='999' ret='-28']} {timestamp={seconds=5 nanos=1002} "
		"line='sixteen-letters-[7]: connect(fd=4, uservaddr=\"10.1.2.3:443\") = -1 ECONNREFUSED (Connection "
		"refused) <999.999us>' structured_metadata=[level='error' " LOKI_THREAD "event='connect' ppid='6' "
		"uid='5' address='10.1.2.3:443' errno='ECONNREFUSED' duration_ns='999999' ret='-111']} "
		"{timestamp={seconds=5 nanos=1003} line='sixteen-letters-[7]: bind(umyaddr=\"[::1]:80\") = -1 "
		"EADDRINUSE (Address already in use) <1.000ms>' structured_metadata=[level='error' " LOKI_THREAD
		"event='bind' ppid='6' uid='5' address='[::1]:80' errno='EADDRINUSE' duration_ns='1000000' "
		"ret='-98']} {timestamp={seconds=5 nanos=1004} line='sixteen-letters-[7]: connect(fd=4, "
		"uservaddr=\"/run/x\") = -1 EACCES (Permission denied) <999.999ms>' "
		"structured_metadata=[level='error' " LOKI_THREAD "event='connect' ppid='6' uid='5' address='/run/x' "
		"errno='EACCES' duration_ns='999999999' ret='-13']}]}",
		"{labels='{class=\"exec\", host=\"box\", service=\"ringtail\"}' entries=[{timestamp={seconds=5 "
		"nanos=1013} line='sixteen-letters-[7]: runs /bin/sh' structured_metadata=[level='info' " LOKI_THREAD
		"event='sched_process_exec' ppid='6' uid='5' exe='dash' exe_path='/usr/bin/dash' path='/bin/sh']} "
		"{timestamp={seconds=5 nanos=1014} line='sixteen-letters-[7]: runs /bin/sh' "
		"structured_metadata=[level='info' " LOKI_THREAD "event='sched_process_exec' ppid='6' uid='5' "
		"path='/bin/sh']}]}",
		"{labels='{class=\"exit\", host=\"box\", service=\"ringtail\"}' entries=[{timestamp={seconds=5 "
		"nanos=1010} line='sixteen-letters-[7]: exit_group(error_code=-1) = ?' "
		"structured_metadata=[level='warn' " LOKI_THREAD "event='exit_group' ppid='6' uid='5']} "
		"{timestamp={seconds=5 nanos=1011} line='sixteen-letters-[7]: killed by SIGSEGV' "
		"structured_metadata=[level='warn' " LOKI_THREAD "event='sched_process_exit' ppid='6' uid='5' "
		"signal='SIGSEGV']} {timestamp={seconds=5 nanos=1012} line='sixteen-letters-[7]: killed by a signal' "
		"structured_metadata=[level='warn' " LOKI_THREAD "event='sched_process_exit' ppid='6' uid='5']}]}",
		"{labels='{class=\"event\", host=\"box\", service=\"ringtail\"}' entries=[{timestamp={seconds=5 "
		"nanos=1005} line='sixteen-letters-[7]: connect(fd=4, uservaddr=\"family 16\") = 0 <1.000s>' "
		"structured_metadata=[level='info' " LOKI_THREAD "event='connect' ppid='6' uid='5' address='family "
		"16' duration_ns='1000000000' ret='0']} {timestamp={seconds=5 nanos=1006} line='sixteen-letters-[7]: "
		"connect(fd=4, uservaddr=\"12 is no address\") = 0 <0.001us>' structured_metadata=[level='info' "
		LOKI_THREAD "event='connect' ppid='6' uid='5' address='12 is no address' duration_ns='1' ret='0']} "
		"{timestamp={seconds=5 nanos=1007} line='sixteen-letters-[7]: mmap() = 0x7f0000001000 <0.001us>' "
		"structured_metadata=[level='info' " LOKI_THREAD "event='mmap' ppid='6' uid='5' duration_ns='1' "
		"ret='139637976731648']} {timestamp={seconds=5 nanos=1008} line='sixteen-letters-[7]: mmap() = -4095 "
		"<0.001us>' structured_metadata=[level='info' " LOKI_THREAD "event='mmap' ppid='6' uid='5' "
		"duration_ns='1' ret='-4095']} {timestamp={seconds=5 nanos=1009} line='sixteen-letters-[7]: mmap() = "
		"0xfffffffffffff000 <0.001us>' structured_metadata=[level='info' " LOKI_THREAD "event='mmap' ppid='6' "
		"uid='5' duration_ns='1' ret='-4096']} {timestamp={seconds=5 nanos=1015} line='sixteen-letters-[7]: "
		"rq(a=-1, b=0xabc, c=\"abcdefghijkl\", d=9029, e=7)' structured_metadata=[level='info' " LOKI_THREAD
		"event='rq' ppid='6' uid='5']}]}",
	};
	Ringtail__Loki__PushRequest *request = build(&export_loki, &ringtail__loki__push_request__descriptor, said, SAID,
						     NULL);

	(void)state;
	EXPECT(request->streams, request->n_streams, wanted);
	protobuf_c_message_free_unpacked(&request->base, NULL);
}

static void otlp_traces(void **state)
{
	static const struct said call[] = {
		{OPENAT, EXPORT_SLOW, {2 * MS, 3}, {0}, 0, NULL, NULL},
		{OPENAT, EXPORT_EVENT, {NEVER, 3}, {0}, 0, NULL, NULL},
		{OPENAT, EXPORT_SLOW, {9999 * MS, (uint64_t)-EIO}, {0}, 0, NULL, NULL},
		{OPENAT, EXPORT_ERROR, {5, (uint64_t)-EIO}, {0}, 0, NULL, NULL},
		{EXIT, EXPORT_EVENT, {120, 1, 0}, {0}, 0, NULL, NULL},
		{EXIT, EXPORT_EXIT, {120, 1, 9}, {0}, 0, NULL, NULL},
		{EXIT, EXPORT_EVENT, {120, 1, 0x300}, {0}, 0, NULL, NULL},
	};
	static const struct export_span span[] = {
		{.span_id = {1}},
		{.span_id = {2}},
		{.span_id = {3}, .trace_id = {4}, .parent_id = {5}, .in_tree = true, .has_parent = true},
		{.span_id = {6}, .trace_id = {7}, .parent_id = {8}, .in_tree = true, .has_parent = true},
		{.span_id = {9}, .trace_id = {10}, .parent_id = {11}, .in_tree = true, .is_process = true, .start_ns = 12,
		 .name = "root"},
		{.span_id = {9}, .trace_id = {10}, .parent_id = {11}, .in_tree = true, .is_process = true, .start_ns = 12,
		 .has_parent = true, .has_exit_code = true, .name = "killed"},
		{.span_id = {9}, .trace_id = {10}, .parent_id = {11}, .in_tree = true, .is_process = true, .start_ns = 12,
		 .has_exit_code = true, .exit_code = 3, .name = "failed"},
	};
	static const char *const wanted[] = {
		"{trace_id=24bd8d741bc31f518780421bd9cda596 span_id=0100000000000000 name='openat' kind=1 "
		"start_time_unix_nano=4998001000 end_time_unix_nano=5000001000 attributes=[" THREAD "ringtail.cpu=3 "
		"ringtail.class='slow' ringtail.syscall.name='openat' " NOTHING_ELSE " "
		"ringtail.syscall.duration_ns=2000000 ringtail.syscall.ret=3]}",
		"{trace_id=4e4a864a18ee8aeabc57bcd2b51f8069 span_id=0200000000000000 name='openat' kind=1 "
		"start_time_unix_nano=5000001001 end_time_unix_nano=5000001001 attributes=[" THREAD "ringtail.cpu=3 "
		"ringtail.class='event' ringtail.syscall.name='openat' " NOTHING_ELSE "]}",
		"{trace_id=04000000000000000000000000000000 span_id=0300000000000000 parent_span_id=0500000000000000 "
		"name='openat' kind=1 start_time_unix_nano=5000001002 end_time_unix_nano=5000001002 attributes=["
		THREAD "ringtail.cpu=3 ringtail.class='slow' ringtail.syscall.name='openat' " NOTHING_ELSE " "
		"ringtail.syscall.duration_ns=9999000000 ringtail.syscall.ret=-5 error.type='EIO'] "
		"status={message='EIO' code=2}}",
		"{trace_id=d0e5e11385ed0f0a24359c4b924adb63 span_id=0300000000000000 name='openat' kind=1 "
		"start_time_unix_nano=5000001002 end_time_unix_nano=5000001002 attributes=[" THREAD "ringtail.cpu=3 "
		"ringtail.class='slow' ringtail.syscall.name='openat' " NOTHING_ELSE " "
		"ringtail.syscall.duration_ns=9999000000 ringtail.syscall.ret=-5 error.type='EIO'] "
		"links=[{trace_id=04000000000000000000000000000000 span_id=0300000000000000}] status={message='EIO' "
		"code=2}}",
		"{trace_id=07000000000000000000000000000000 span_id=0600000000000000 parent_span_id=0800000000000000 "
		"name='openat' kind=1 start_time_unix_nano=5000000998 end_time_unix_nano=5000001003 attributes=["
		THREAD "ringtail.cpu=3 ringtail.class='error' ringtail.syscall.name='openat' " NOTHING_ELSE " "
		"ringtail.syscall.duration_ns=5 ringtail.syscall.ret=-5 error.type='EIO'] status={message='EIO' "
		"code=2}}",
		"{trace_id=0a000000000000000000000000000000 span_id=0900000000000000 name='root' kind=1 "
		"start_time_unix_nano=1012 end_time_unix_nano=5000001004 attributes=[" THREAD "ringtail.cpu=3 "
		"ringtail.class='event' ringtail.event.prio=120 ringtail.event.group_dead=1 "
		"ringtail.event.exit_code=0]}",
		"{trace_id=0a000000000000000000000000000000 span_id=0900000000000000 parent_span_id=0b00000000000000 "
		"name='killed' kind=1 start_time_unix_nano=1012 end_time_unix_nano=5000001005 attributes=[" THREAD
		"ringtail.cpu=3 ringtail.class='exit' ringtail.signal='SIGKILL' ringtail.event.prio=120 "
		"ringtail.event.group_dead=1 ringtail.event.exit_code=9 process.exit.code=0] status={message='killed "
		"by a signal' code=2}}",
		"{trace_id=0a000000000000000000000000000000 span_id=0900000000000000 name='failed' kind=1 "
		"start_time_unix_nano=1012 end_time_unix_nano=5000001006 attributes=[" THREAD "ringtail.cpu=3 "
		"ringtail.class='event' ringtail.event.prio=120 ringtail.event.group_dead=1 "
		"ringtail.event.exit_code=768 process.exit.code=3] status={message='exit status other than 0' code=2}}",
	};
	Ringtail__Otlp__TracesRequest *request = build(&export_otlp_traces, &ringtail__otlp__traces_request__descriptor,
						       call, 7, span);
	Ringtail__Otlp__ScopeSpans *scope = request->resource_spans[0]->scope_spans[0];

	(void)state;
	EXPECT(scope->spans, scope->n_spans, wanted);
	protobuf_c_message_free_unpacked(&request->base, NULL);
}

/* The host's name as far as it goes, whatever stood there before; and its architecture by its other name. */
static void other_hosts(void **state)
{
	static const struct {
		const char *name, *machine, *arch;
	} row[] = {
		{"a-name-of-many-letters", "aarch64", "arm64"}, {"box", "riscv64", "riscv64"}, {"b", "x86_64", "amd64"},
	};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct export_host *host = make_host();
		struct export_arena arena = {0};
		struct export_maker maker = {host->run, &arena, 0};
		struct export_list list = TAILQ_HEAD_INITIALIZER(list);
		struct export_body body = {0};
		struct export_event *event = make(host, &said[7], 1);
		char wanted[100];

		strcpy(host->run->name, row[i].name);
		strcpy(host->run->machine, row[i].machine);
		host->run->host_id[0] = '\0';
		TAILQ_INSERT_TAIL(&list, event, link);
		assert_int_equal(export_loki.build(&maker, &list, &body), 0);
		snprintf(wanted, sizeof(wanted), "host=\"%s\",", row[i].name);
		assert_non_null(memmem(body.data, body.bytes, wanted, strlen(wanted)));
		free(body.data);
		assert_int_equal(export_otlp_logs.build(&maker, &list, &body), 0);
		assert_non_null(memmem(body.data, body.bytes, row[i].arch, strlen(row[i].arch)));
		assert_null(memmem(body.data, body.bytes, "host.id", 7));
		free(body.data);
		export_event_destroy(event);
		export_arena_fini(&arena);
		export_host_destroy(host);
	}
}

/* What goes out as spans: slow calls, processes and errors of a tree; each with its class. */
static void what_traces_take(void **state)
{
	static const struct {
		struct said said;
		bool goes;
		enum export_class class;
	} row[] = {
		{{.probe = OPENAT, .class = EXPORT_SLOW}, true, EXPORT_SLOW},
		{{.probe = OPENAT, .class = EXPORT_EVENT}, true, EXPORT_EVENT},
		{{.probe = OPENAT, .class = EXPORT_ERROR}, false, EXPORT_ERROR},
		{{.probe = OPENAT, .class = EXPORT_NOTHING}, false, EXPORT_NOTHING},
		{{.probe = EXEC, .class = EXPORT_EXEC, .field = {7}}, false, EXPORT_EXEC},	/* its tree begins */
		{{.probe = OPENAT, .class = EXPORT_ERROR}, true, EXPORT_ERROR},
		{{.probe = OPENAT, .class = EXPORT_NOTHING}, false, EXPORT_NOTHING},
		{{.probe = EXIT, .class = EXPORT_EXIT, .field = {120, 1, 9}}, true, EXPORT_EXIT},
		{{.probe = EXEC, .class = EXPORT_EXEC, .field = {7}}, false, EXPORT_EXEC},
		{{.probe = EXIT, .class = EXPORT_NOTHING, .field = {120, 1, 0}}, true, EXPORT_EVENT},
		{{.probe = EXIT, .class = EXPORT_NOTHING, .field = {120, 1, 0}}, false, EXPORT_NOTHING},
	};
	struct export_host *host = make_host();
	void *tree;

	(void)state;
	host->tree.word[host->tree.count++] = strdup("sixteen*");
	tree = export_otlp_traces.create(host);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct export_event *event = make(host, &row[i].said, i + 1);
		struct export_taken taken = {.send = TAILQ_HEAD_INITIALIZER(taken.send),
					     .drop = TAILQ_HEAD_INITIALIZER(taken.drop)};

		export_otlp_traces.take(tree, event, &taken);
		assert_ptr_equal(TAILQ_FIRST(&taken.send), row[i].goes ? event : NULL);
		assert_ptr_equal(TAILQ_FIRST(&taken.drop), row[i].goes ? NULL : event);
		assert_int_equal(event->class, row[i].class);
		export_event_destroy(event);
	}
	export_otlp_traces.destroy(tree);
	export_host_destroy(host);
}

/* Wherever memory ends, that is said, and nothing is left. */
static void no_memory(void **state)
{
	const struct export_kind *kind[] = {&export_otlp_logs, &export_otlp_traces, &export_loki};
	struct export_host *host = make_host();
	struct export_list list = TAILQ_HEAD_INITIALIZER(list);
	struct export_event *event;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		event = make(host, &said[0], 1);
		TAILQ_INSERT_TAIL(&list, event, link);
	}
	for (unsigned i = 0; i < 3; i++) {
		unsigned n = 0;
		int err = -1;

		for (; err; n++) {
			struct export_arena arena = {0};
			struct export_maker maker = {host->run, &arena, 0};
			struct export_body body = {0};

			allocations_left = n;
			failures_left = 1;
			err = kind[i]->build(&maker, &list, &body);
			assert_true(!err || (err == -ENOMEM && !body.data));
			failures_left = 0;
			free(body.data);
			export_arena_fini(&arena);
		}
		assert_in_range(n, 3, 6);		/* the arena, and the body, which grows */
	}
	while ((event = TAILQ_FIRST(&list)) != NULL) {
		TAILQ_REMOVE(&list, event, link);
		export_event_destroy(event);
	}
	allocations_left = 0;
	failures_left = 1;
	{
		struct batch_thread thread = {.tid = 1};
		struct batch_item item = {.thread = &thread};

		assert_null(export_event_create(host->run, 0, &item));
		failures_left = 0;
		item.event.probe = PROBES;
		assert_null(export_event_create(host->run, 0, &item));
		item.event.probe = RT_PROBE_MAX;
		assert_null(export_event_create(host->run, 0, &item));
	}
	export_host_destroy(host);
}

/* ---- The first event of a frame, for people -------------------------------------------------- */

struct times {
	unsigned n;
	uint64_t last_ns;
};

static void add_time(void *context, uint64_t time_ns)
{
	struct times *times = context;

	times->n++;
	times->last_ns = time_ns;
}

static void the_first_event_as_a_line(void **state)
{
	struct times times;
	static const char none[] = "an event that cannot be shown";
	struct batch_encoder *encoder = batch_encoder_create(RT_PROBE_MAX);
	struct frame_codec *codec = frame_codec_create(1);
	const struct batch_thread thread = {.tid = 8, .pid = 7, .ppid = 6, .comm = "sh"};
	const uint64_t field[] = {5 * MS, 3};
	struct batch_event event = {.probe = MMAP, .fields = 2, .has_duration = true, .field = field, .time_ns = 9};
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Probe *list[PROBES];
	struct frame_ref *frame;
	const uint8_t *message;
	uint64_t slot = 0;
	size_t bytes;
	char text[80];
	unsigned n = 0;

	(void)state;
	export_host_destroy(make_host());
	for (unsigned i = 0; i < PROBES; i++)
		list[i] = &probes[i];
	catalog.probe = list;
	catalog.n_probe = PROBES;
	for (unsigned round = 0; round < 3; round++) {		/* a loss before it; nothing but a loss */
		slot = 0;
		batch_encode_begin(encoder, 3, 1, 0);
		if (round)
			assert_true(batch_encode_loss(encoder, 1, 0, 5));
		event.thread = batch_encode_thread(encoder, &thread, &slot);
		if (round < 2)
			assert_true(batch_encode_event(encoder, &event));
		message = batch_encode_finish(encoder, &bytes);
		frame = frame_ref_seal(codec, FRAME_BATCH, message, (uint32_t)bytes);
		export_event_first_text(frame, codec, &catalog, text, sizeof(text));
		assert_string_equal(text, round < 2 ? "sh[7]: mmap() = 3 <5.000ms>" : none);
		times = (struct times){0};
		assert_int_equal(export_event_times(frame, codec, &catalog, add_time, &times), 0);
		assert_int_equal(times.n, round < 2);
		assert_int_equal(times.last_ns, round < 2 ? event.time_ns : 0);
		export_event_first_text(frame, codec, &catalog, text, 5);
		assert_string_equal(text, round < 2 ? "sh[7" : "an e");
		if (round < 2)
			frame_ref_put(frame);
	}
	export_event_first_text(frame, codec, &catalog, text, sizeof(text));
	frame_ref_put(frame);
	/* Of a probe that is not there; of what is no frame; and wherever memory ends. */
	slot = 0;
	batch_encode_begin(encoder, 3, 1, 0);
	event.thread = batch_encode_thread(encoder, &thread, &slot);
	assert_true(batch_encode_event(encoder, &event));
	message = batch_encode_finish(encoder, &bytes);
	frame = frame_ref_seal(codec, FRAME_BATCH, message, (uint32_t)bytes);
	catalog.n_probe = MMAP;
	export_event_first_text(frame, codec, &catalog, text, sizeof(text));
	assert_string_equal(text, none);
	catalog.n_probe = PROBES;
	do {
		assert_true(n < 50);
		allocations_left = n++;
		failures_left = 1;
		export_event_first_text(frame, codec, &catalog, text, sizeof(text));
		assert_true(failures_left || !strcmp(text, none));
	} while (!failures_left);
	failures_left = allocations_left = 0;
	assert_true(n > 4);
	frame->data[0] ^= 1;
	export_event_first_text(frame, codec, &catalog, text, sizeof(text));
	assert_string_equal(text, none);
	assert_int_equal(export_event_times(frame, codec, &catalog, add_time, &times), -EBADMSG);
	frame_ref_put(frame);
	frame_codec_destroy(codec);
	batch_encoder_destroy(encoder);
}

/* What finds no room in a line is left out: it ends in time, and ends as a text. */
static void a_line_that_is_too_long(void **state)
{
	static Ringtail__V1__Field field[PROBE_FIELDS_MAX];
	static Ringtail__V1__Field *list[PROBE_FIELDS_MAX];
	static char name[60];
	struct export_host *host = make_host();
	Ringtail__V1__Probe probe = probes[RQ];
	struct export_event *event = make(host, &said[15], 1);
	char body[EXPORT_BODY_BYTES + 8], text[2 * STRING_BYTES_MAX];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	for (unsigned i = 0; i < PROBE_FIELDS_MAX; i++) {
		ringtail__v1__field__init(&field[i]);
		field[i].name = name;
		list[i] = &field[i];
	}
	probe.field = list;
	probe.n_field = event->fields = PROBE_FIELDS_MAX;
	event->probe = &probe;
	memset(body, 'x', sizeof(body));
	assert_int_equal(export_event_body(event, body), EXPORT_BODY_BYTES - 1);
	assert_int_equal(strlen(body), EXPORT_BODY_BYTES - 1);
	assert_int_equal(body[EXPORT_BODY_BYTES], 'x');
	/* And a text in words as any other is, or where its words end. */
	field[0].type = field[23].type = FIELD(TEXT);
	field[0].bytes = field[23].bytes = 8 * PROBE_FIELDS_MAX;
	memset(event->field, 't', sizeof(event->field));
	assert_int_equal(strlen(export_event_value_text(event, 0, text, sizeof(text))), STRING_BYTES_MAX + 2);
	assert_string_equal(export_event_value_text(event, 23, text, sizeof(text)), "\"tttttttt\"");
	export_event_destroy(event);
	export_host_destroy(host);
}

/* Aligned for anything, each piece its own, and again the same ones once it is emptied. */
static void an_arena_gives_its_own(void **state)
{
	struct export_arena arena = {0};
	uint8_t *first, *second;

	(void)state;
	assert_int_equal(export_arena_reserve(&arena, 64), 0);
	first = export_arena_take(&arena, 1);
	second = export_arena_take(&arena, 17);
	assert_int_equal((uintptr_t)first % 16, 0);
	assert_int_equal(second - first, 16);
	assert_int_equal(arena.used, 48);
	assert_int_equal(export_arena_reserve(&arena, 32), 0);
	assert_ptr_equal(export_arena_take(&arena, 32), first);
	assert_int_equal(export_arena_reserve(&arena, 4096), 0);
	assert_int_equal(arena.bytes, 4096);
	export_arena_fini(&arena);
	assert_int_equal(arena.bytes + arena.used, 0);
}

static void what_cannot_be_compressed_or_undone(void **state)
{
	static const uint8_t text[] = "text text text", garbage[] = "\xff\xff\xff\xff\xff\xff";
	uint8_t *out, *back;
	size_t bytes, back_bytes;

	(void)state;
	for (unsigned i = EXPORT_GZIP; i <= EXPORT_SNAPPY; i++) {
		failures_left = 1;
		assert_int_equal(export_compress(i, text, sizeof(text), &out, &bytes), -ENOMEM);
		failures_left = 0;
		assert_int_equal(export_compress(i, text, sizeof(text), &out, &bytes), 0);
		failures_left = 1;
		assert_int_equal(export_compress_undo(i, out, bytes, &back, &back_bytes), -ENOMEM);
		failures_left = 0;
		assert_int_equal(export_compress_undo(i, out, bytes, &back, &back_bytes), 0);
		assert_int_equal(back_bytes, sizeof(text));
		assert_memory_equal(back, text, sizeof(text));
		free(back);
		assert_int_equal(export_compress_undo(i, out, bytes / 2, &back, &back_bytes), -EIO);
		assert_int_equal(export_compress_undo(i, garbage, 6, &back, &back_bytes), -EIO);
		free(out);
	}
	assert_string_equal(export_encoding_name(EXPORT_GZIP), "gzip");
	assert_string_equal(export_encoding_name(EXPORT_SNAPPY), "snappy");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(otlp_logs),
		cmocka_unit_test(parent_as_it_was_at_each_event),
		cmocka_unit_test(loki),
		cmocka_unit_test(otlp_traces),
		cmocka_unit_test(other_hosts),
		cmocka_unit_test(what_traces_take),
		cmocka_unit_test(no_memory),
		cmocka_unit_test(the_first_event_as_a_line),
		cmocka_unit_test(a_line_that_is_too_long),
		cmocka_unit_test(an_arena_gives_its_own),
		cmocka_unit_test(what_cannot_be_compressed_or_undone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
