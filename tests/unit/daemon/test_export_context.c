/* What an exported event says of its thread and of its texts, to every kind; and who shares it. */
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
#include "tests/unit/daemon/export_make.h"

#define ID	"3f2a5cbd1e9047d6a8b1c2d3e4f5061728394a5b6c7d8e9f00112233445566aa"
#define POD	"0f4ee4f9-c1d1-4d5c-8f3b-6a1f0c2b7a11"
#define IN_POD	"/kubepods/burstable/pod" POD "/docker-" ID ".scope"
#define UNIT	"/system.slice/a\xff.service"

static struct batch_text text_of(const char *text)
{
	return (struct batch_text){.serial = 1, .data = text, .bytes = (uint32_t)strlen(text)};
}

/* openat with three texts, though it has but one field for them. */
static struct export_event *make(const struct export_host *host, const char *exe,
				 const char *cgroup)
{
	static const uint64_t field[] = {10, (uint64_t)-ENOSPC, 9};
	static const char *const string[] = {"/dev/sda", "/mnt", "ext4"};
	struct batch_attachment attachment[3];
	struct batch_text exe_text = text_of(exe ? exe : ""), cgroup_text = text_of(cgroup ? cgroup : "");
	struct batch_thread thread = {.tid = 5, .pid = 5, .ppid = 4, .uid = 1000, .comm = "c",
				      .exe = exe ? &exe_text : NULL,
				      .cgroup = cgroup ? &cgroup_text : NULL};
	struct batch_item item = {.kind = BATCH_EVENT, .seq = 1, .thread = &thread,
				  .attachment = attachment, .attachments = 3};
	struct export_event *event;

	for (unsigned i = 0; i < 3; i++)
		attachment[i] = (struct batch_attachment){
			.kind = RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_STRING, .arg = 2 - i,
			.text = (const uint8_t *)string[i], .text_bytes = strlen(string[i]),
		};
	item.event = (struct batch_event){.probe = MAKE_OPENAT, .fields = 3, .has_duration = true,
					  .time_ns = 5000000, .field = field};
	event = export_event_create(host->run, 0, &item);
	assert_non_null(event);
	event->class = EXPORT_ERROR;
	return event;
}

static void expect(const char *got, const char *wanted)
{
	if (!wanted)
		assert_true(!got || !*got);
	else
		assert_string_equal(got, wanted);
}

static void test_what_is_known(void **state)
{
	struct export_host *host = make_host(1000000, NULL);
	struct export_event *event = make(host, "/usr/bin/cat", IN_POD);

	(void)state;
	expect(event->context->exe, "cat");
	expect(event->context->exe_path, "/usr/bin/cat");
	expect(event->context->cgroup, IN_POD);
	expect(event->context->container, ID);
	expect(event->context->runtime, "docker");
	expect(event->context->pod, POD);
	expect(event->context->unit, NULL);
	assert_int_equal(event->strings, 3);
	expect(export_event_string(event, 2), "/dev/sda");
	expect(export_event_string(event, 1), "/mnt");
	expect(export_event_string(event, 0), "ext4");
	expect(export_event_string(event, 3), NULL);
	export_event_destroy(event);
	/* A name that was cut to its base, and one that is not all text. */
	event = make(host, "cat", UNIT);
	expect(event->context->exe, "cat");
	expect(event->context->exe_path, NULL);
	expect(event->context->cgroup, "/system.slice/a?.service");
	expect(event->context->unit, "a?.service");
	expect(event->context->container, NULL);
	export_event_destroy(event);
	event = make(host, NULL, "/");
	expect(event->context->exe, NULL);
	expect(event->context->cgroup, "/");
	export_event_destroy(event);
	event = make(host, NULL, NULL);
	assert_null(event->context);
	export_event_destroy(event);
	export_host_destroy(host);
}

/* Events that follow each other share one; who differs in a byte has its own. */
static void test_who_shares(void **state)
{
	struct export_host *host = make_host(1000000, NULL);
	struct export_event *event[6];

	(void)state;
	event[0] = make(host, "/bin/a", "/x");
	event[1] = make(host, "/bin/a", "/x");
	assert_ptr_equal(event[0]->context, event[1]->context);
	event[2] = make(host, "/bin/b", "/x");
	event[3] = make(host, "/bin/a", "/y");
	event[4] = make(host, "/bin/a/", "x");
	event[5] = make(host, "/bin/a", NULL);
	for (unsigned i = 2; i < 6; i++)
		assert_ptr_not_equal(event[i]->context, event[0]->context);
	expect(event[4]->context->cgroup, "x");
	for (unsigned i = 0; i < 6; i++)
		export_event_destroy(event[i]);
	/* More than are kept: each is right, and none is lost. */
	for (unsigned i = 0; i < 4 * EXPORT_CONTEXTS_KEPT; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/bin/%u", i);
		event[0] = make(host, path, "/x");
		expect(event[0]->context->exe_path, path);
		export_event_destroy(event[0]);
	}
	export_host_destroy(host);
}

static uint8_t *build(const struct export_kind *kind, struct export_arena *arena, size_t *bytes)
{
	struct export_host *host = make_host(1000000, NULL);
	struct export_maker maker = {.arena = arena, .run = host->run};
	struct export_event *event = make(host, "/usr/bin/cat", IN_POD);
	struct export_body body = {0};
	struct export_list list;

	TAILQ_INIT(&list);
	TAILQ_INSERT_TAIL(&list, event, link);
	assert_int_equal(kind->build(&maker, &list, &body), 0);
	export_event_destroy(event);
	export_host_destroy(host);
	*bytes = body.bytes;
	return body.data;
}

static void test_otlp(void **state)
{
	static const char *const wanted[][2] = {
		{"process.executable.name", "cat"}, {"process.executable.path", "/usr/bin/cat"},
		{"process.linux.cgroup", IN_POD}, {"container.id", ID},
		{"container.runtime", "docker"}, {"k8s.pod.uid", POD},
	};
	Ringtail__Otlp__LogsRequest *request;
	const Ringtail__Otlp__LogRecord *record;
	struct export_arena arena = {0};
	unsigned found = 0;
	size_t bytes;
	uint8_t *data = build(&export_otlp_logs, &arena, &bytes);

	(void)state;
	request = ringtail__otlp__logs_request__unpack(NULL, bytes, data);
	assert_non_null(request);
	record = request->resource_logs[0]->scope_logs[0]->log_records[0];
	for (size_t i = 0; i < record->n_attributes; i++) {
		const Ringtail__Otlp__KeyValue *pair = record->attributes[i];

		for (size_t k = 0; k < sizeof(wanted) / sizeof(wanted[0]); k++) {
			if (strcmp(pair->key, wanted[k][0]))
				continue;
			assert_string_equal(pair->value->string_value, wanted[k][1]);
			found++;
		}
		assert_string_not_equal(pair->key, "ringtail.systemd.unit");
	}
	assert_int_equal(found, sizeof(wanted) / sizeof(wanted[0]));
	ringtail__otlp__logs_request__free_unpacked(request, NULL);
	free(data);
	export_arena_fini(&arena);
}

static void test_loki(void **state)
{
	static const char *const wanted[][2] = {
		{"exe", "cat"}, {"exe_path", "/usr/bin/cat"}, {"cgroup", IN_POD},
		{"container", ID}, {"container_runtime", "docker"}, {"pod", POD},
		{"ppid", "4"}, {"uid", "1000"}, {"path", "/dev/sda"}, {"ret", "/mnt"},
		{"duration_ns", "ext4"},
	};
	Ringtail__Loki__PushRequest *request;
	const Ringtail__Loki__Entry *entry;
	struct export_arena arena = {0};
	size_t bytes;
	uint8_t *data = build(&export_loki, &arena, &bytes);

	(void)state;
	request = ringtail__loki__push_request__unpack(NULL, bytes, data);
	assert_non_null(request);
	entry = request->streams[0]->entries[0];
	/* Labels are as few as ever. */
	assert_null(strstr(request->streams[0]->labels, ID));
	for (size_t k = 0; k < sizeof(wanted) / sizeof(wanted[0]); k++) {
		unsigned found = 0;

		for (size_t i = 0; i < entry->n_structured_metadata; i++)
			found += !strcmp(entry->structured_metadata[i]->name, wanted[k][0]) &&
				 !strcmp(entry->structured_metadata[i]->value, wanted[k][1]);
		if (found != 1)
			fail_msg("%s is not %s", wanted[k][0], wanted[k][1]);
	}
	ringtail__loki__push_request__free_unpacked(request, NULL);
	free(data);
	export_arena_fini(&arena);
}

/* Of an openat whose argument is said to be the address of a socket; "": there is none. */
static char *peer_of(const struct export_host *host, const char *text, int64_t *port)
{
	struct export_event *event = make(host, NULL, NULL);
	Ringtail__V1__Field *field = event->probe->field[2];
	struct export_maker maker = {.run = host->run};
	Ringtail__Otlp__LogsRequest *request;
	Ringtail__Otlp__LogRecord *record;
	struct export_arena arena = {0};
	struct export_body body = {0};
	struct export_list list;
	char *peer = strdup("");

	field->c_type = (char *)"struct sockaddr *";
	strcpy(event->string[0], text);		/* the catalog's field 2 has it */
	maker.arena = &arena;
	TAILQ_INIT(&list);
	TAILQ_INSERT_TAIL(&list, event, link);
	assert_int_equal(export_otlp_logs.build(&maker, &list, &body), 0);
	request = ringtail__otlp__logs_request__unpack(NULL, body.bytes, body.data);
	assert_non_null(request);
	record = request->resource_logs[0]->scope_logs[0]->log_records[0];
	*port = -1;
	for (size_t i = 0; i < record->n_attributes; i++)
		if (!strcmp(record->attributes[i]->key, "network.peer.address")) {
			free(peer);
			peer = strdup(record->attributes[i]->value->string_value);
		} else if (!strcmp(record->attributes[i]->key, "network.peer.port")) {
			*port = record->attributes[i]->value->int_value;
		}
	ringtail__otlp__logs_request__free_unpacked(request, NULL);
	export_event_destroy(event);
	free(body.data);
	export_arena_fini(&arena);
	return peer;
}

static void test_peer(void **state)
{
	static const struct {
		const char *text, *peer;
		int64_t port;
	} row[] = {
		{"127.0.0.1:5432", "127.0.0.1", 5432}, {"[::1]:443", "::1", 443},
		{"[fe80::1%2]:65535", "fe80::1%2", 65535}, {"/run/x.sock", "/run/x.sock", -1},
		{"./7:8", "./7:8", -1}, {"@name:7", "@name:7", -1}, {"netlink", "", -1},
		{"inet, cut short", "", -1}, {"", "", -1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct export_host *host = make_host(1000000, NULL);
		int64_t port;
		char *peer = peer_of(host, row[i].text, &port);

		assert_string_equal(peer, row[i].peer);
		assert_int_equal(port, row[i].port);
		free(peer);
		export_host_destroy(host);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_known),
		cmocka_unit_test(test_who_shares),
		cmocka_unit_test(test_otlp),
		cmocka_unit_test(test_loki),
		cmocka_unit_test(test_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
