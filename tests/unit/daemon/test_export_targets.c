/*
 * Destinations and headers as they are configured: what each becomes; and what is refused, in words that say
 * what to write instead and show no secret.
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
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/export/target.h"
#include "tests/lib/failing_memory.h"

struct fixture {
	struct config config;
	struct account account;
	struct export_targets targets;
	struct error error;
	char directory[40], path[64];
};

static int make(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->directory, "/tmp/ringtail-targets-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->path, sizeof(f->path), "%s/file", f->directory);
	f->account = (struct account){.uid = geteuid(), .gid = getegid()};
	*state = f;
	return 0;
}

static int unmake(void **state)
{
	struct fixture *f = *state;

	unlink(f->path);
	assert_int_equal(rmdir(f->directory), 0);
	free(f);
	return 0;
}

static void set(struct fixture *f, const char *first, const char *second, const char *header)
{
	f->config = (struct config){.export_ca = f->config.export_ca};
	f->config.export.word[0] = (char *)first;
	f->config.export.word[1] = (char *)second;
	f->config.export.count = second ? 2 : 1;
	f->config.export_header.word[0] = (char *)header;
	f->config.export_header.count = header != NULL;
}

static int read_all(struct fixture *f)
{
	f->error = (struct error){0};
	return export_targets_read(&f->config, &f->account, &f->targets, &f->error);
}

static void refused(struct fixture *f, const char *code, const char *what, const char *hint)
{
	assert_true(read_all(f) < 0);
	assert_string_equal(f->error.code, code);
	assert_string_equal(f->error.what, what);
	if (hint)
		assert_string_equal(f->error.hint, hint);
	assert_int_equal(f->targets.count, 0);
}

static void a_destination_is_whole(void **state)
{
	static const struct {
		const char *word, *url;
		const struct export_kind *kind;
	} row[] = {
		{"loki:http://a", "http://a/loki/api/v1/push", &export_loki},
		{"otlp-logs:http://a:4318/", "http://a:4318/v1/logs", &export_otlp_logs},
		{"otlp-traces:https://a", "https://a/v1/traces", &export_otlp_traces},
		{"otlp-metrics:https://a/?x=1", "https://a/v1/metrics?x=1", &export_otlp_metrics},
		{"remote-write:https://a/own", "https://a/own", &export_remote_write},
		{"remote-write:http://[::1]:9090", "http://[::1]:9090/api/v1/write", &export_remote_write},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const struct export_target *target = &f->targets.target[0];

		set(f, row[i].word, NULL, NULL);
		assert_int_equal(read_all(f), 0);
		assert_int_equal(f->targets.count, 1);
		assert_ptr_equal(target->kind, row[i].kind);
		assert_string_equal(target->url, row[i].url);
		assert_string_equal(target->name, row[i].word);
		assert_int_equal(export_targets_take_metrics(&f->targets), i >= 3);
		export_targets_free(&f->targets);
		assert_int_equal(f->targets.count, 0);
	}
}

/* It names what the spool keeps, over restarts and new versions: it is never another. */
static void its_consumer_has_a_name_for_ever(void **state)
{
	struct fixture *f = *state;

	set(f, "loki:http://a", "loki:http://b", NULL);
	assert_int_equal(read_all(f), 0);
	assert_string_equal(f->targets.target[0].consumer, "export-loki-993755b5f1023be8");
	assert_string_not_equal(f->targets.target[0].consumer, f->targets.target[1].consumer);
	export_targets_free(&f->targets);
}

static void what_is_no_destination(void **state)
{
	static const struct {
		const char *word, *code, *what, *hint;
	} row[] = {
		{"otlp:http://a", "export-kind", "export: `otlp`: there is no such kind",
		 "write KIND:URL, where KIND is otlp-logs, otlp-traces, otlp-metrics, loki or remote-write"},
		{"loki", "export-kind", "export: `loki`: there is no such kind", NULL},
		{"a-kind-of-more-than-thirty-one-bytes:http://a", "export-kind",
		 "export: `a-kind-of-more-than-thirty-one-bytes`: there is no such kind", NULL},
		{"loki:ftp://a", "export-url", "export: `loki:ftp://a`: it is neither http nor https",
		 "write loki:http://HOST:PORT, or https; and a path, if it is not the usual one"},
		{"loki:gopher-x://a", "export-url", "export: `loki:gopher-x://a`: it is neither http nor https", NULL},
		{"loki:http://a:0", "export-url", "export: `loki:http://a:0`: there is no port 0", NULL},
		{"loki:http://a/#b", "export-url", "export: `loki:http://a/#b`: a fragment (#) is for browsers", NULL},
		{"loki:http://me:word@a", "export-url", "export: `loki:...`: the URL holds a user",
		 "secrets go into a file: export-header = Authorization: @FILE"},
		{"loki:http://me@a", "export-url", "export: `loki:...`: the URL holds a user", NULL},
		{"loki:http://:word@a", "export-url", "export: `loki:...`: the URL holds a user", NULL},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		set(f, row[i].word, NULL, NULL);
		refused(f, row[i].code, row[i].what, row[i].hint);
	}
	set(f, "loki:http://a", "loki:http://a/loki/api/v1/push", NULL);
	refused(f, "export-twice", "export: `loki:http://a/loki/api/v1/push` is there twice",
		"keep one of them: two would get the same");
	/* The same URL of another kind is another destination. */
	set(f, "otlp-logs:http://a/x", "otlp-traces:http://a/x", NULL);
	assert_int_equal(read_all(f), 0);
	export_targets_free(&f->targets);
}

/* ---- Headers --------------------------------------------------------------------------------- */

static void a_header_goes_where_it_is_for(void **state)
{
	static const struct {
		const char *word, *first, *second;
	} row[] = {
		{"X-a_b.c: d e", "X-a_b.c: d e", "X-a_b.c: d e"}, {"X: \t y", "X: y", "X: y"}, {"X:y", "X: y", "X: y"},
		{"loki X: y", "X: y", NULL}, {"otlp-logs X: y\t", NULL, "X: y\t"}, {"remote-write X: y", NULL, NULL},
		{"Connection-X: y", "Connection-X: y", "Connection-X: y"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const char *wanted[] = {row[i].first, row[i].second};

		set(f, "loki:http://a", "otlp-logs:http://a", row[i].word);
		assert_int_equal(read_all(f), 0);
		for (unsigned j = 0; j < 2; j++) {
			assert_int_equal(f->targets.target[j].headers, wanted[j] != NULL);
			if (wanted[j])
				assert_string_equal(f->targets.target[j].header[0], wanted[j]);
		}
		export_targets_free(&f->targets);
	}
}

static void what_is_no_header(void **state)
{
	static const char usual[] = "write `Name: value`, `Name: @FILE`, or a kind of export before that:"
				    " `loki X-Scope-OrgID: 1`";
	static const struct {
		const char *word, *what, *hint;
	} row[] = {
		{"X", "export-header: `X` does not begin a header", usual},
		{": y", "export-header: `` does not begin a header", usual},
		{"X y: z", "export-header: `X y` does not begin a header", usual},
		{"loki : z", "export-header: `loki ` does not begin a header", usual},
		{"loki X Y: z", "export-header: `loki X Y` does not begin a header", usual},
		{"content-type: x", "export-header: `content-type` cannot be given",
		 "take it out: the exporter says itself what it sends"},
		{"Content-Encoding: x", "export-header: `Content-Encoding` cannot be given", NULL},
		{"loki Content-Length: 1", "export-header: `Content-Length` cannot be given", NULL},
		{"Transfer-Encoding: x", "export-header: `Transfer-Encoding` cannot be given", NULL},
		{"Connection: x", "export-header: `Connection` cannot be given", NULL},
		{"X:  ", "export-header: `X` has no value",
		 "write `Name: value`, or `Name: @FILE` with the value in the file's first line"},
		{"X: a\nY: b", "export-header: the value of `X` holds the control character 0x0a",
		 "a value is one line of text"},
		{"X: a\x1f", "export-header: the value of `X` holds the control character 0x1f", NULL},
		{"X: a\x7f", "export-header: the value of `X` holds the control character 0x7f", NULL},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		set(f, "loki:http://a", NULL, row[i].word);
		refused(f, "export-header", row[i].what, row[i].hint);
	}
	set(f, "loki:http://a", NULL, "X: a \xc3\xa9");		/* beyond ASCII is text */
	assert_int_equal(read_all(f), 0);
	export_targets_free(&f->targets);
}

static void write_file(const struct fixture *f, const char *text, size_t bytes, mode_t mode)
{
	FILE *file = fopen(f->path, "w");

	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	fclose(file);
	assert_int_equal(chmod(f->path, mode), 0);
}

static void a_secret_is_the_first_line_of_its_file(void **state)
{
	struct fixture *f = *state;
	char header[96], text[EXPORT_SECRET_BYTES_MAX + 1];

	snprintf(header, sizeof(header), "A: @%s", f->path);
	set(f, "loki:http://a", NULL, header);
	write_file(f, "Bearer x\r\nmore\n", 15, 0600);
	assert_int_equal(read_all(f), 0);
	assert_string_equal(f->targets.target[0].header[0], "A: Bearer x");
	export_targets_free(&f->targets);
	memset(text, 'x', sizeof(text));
	write_file(f, text, EXPORT_SECRET_BYTES_MAX - 1, 0600);
	assert_int_equal(read_all(f), 0);
	assert_int_equal(strlen(f->targets.target[0].header[0]), 3 + EXPORT_SECRET_BYTES_MAX - 1);
	export_targets_free(&f->targets);
	write_file(f, text, EXPORT_SECRET_BYTES_MAX, 0600);
	assert_true(read_all(f) < 0);
	assert_non_null(strstr(f->error.what, "has 4096 bytes or more"));
	write_file(f, "a\0b\n", 4, 0600);
	assert_true(read_all(f) < 0);
	assert_non_null(strstr(f->error.what, "has a NUL in it"));
	write_file(f, "\nsecond", 7, 0600);
	refused(f, "export-header", "export-header: `A` has no value", NULL);
}

/* ---- The authority --------------------------------------------------------------------------- */

#define PEM "text before\n-----BEGIN CERTIFICATE-----\n"

static void an_authority_is_a_file_of_certificates(void **state)
{
	struct fixture *f = *state;
	const uid_t me = f->account.uid;
	const gid_t mine = f->account.gid;
	const struct {
		const char *text;
		mode_t mode;
		uid_t uid;
		gid_t gid;
		const char *why;
	} row[] = {
		{PEM, 0400, me, mine, NULL}, {PEM, 0044, me, mine, "is closed to the daemon's user"},
		{PEM, 0040, me + 1, mine, NULL}, {PEM, 0404, me + 1, mine, "is closed to the daemon's user"},
		{PEM, 0004, me + 1, mine + 1, NULL}, {PEM, 0440, me + 1, mine + 1, "is closed to the daemon's user"},
		{"", 0444, me, mine, "holds no certificate"}, {"x-----BEGIN \n", 0444, me, mine, "holds no certificate"},
		{"----BEGIN CERTIFICATE-----\n", 0444, me, mine, "holds no certificate"},
	};

	f->config.export_ca = f->path;
	set(f, "loki:http://a", NULL, NULL);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		write_file(f, row[i].text, strlen(row[i].text), row[i].mode);
		f->account = (struct account){.uid = row[i].uid, .gid = row[i].gid};
		if (me && !(row[i].mode & S_IRUSR))
			continue;		/* who runs the test cannot open it */
		assert_int_equal(read_all(f), row[i].why ? -EINVAL : 0);
		if (row[i].why)
			assert_non_null(strstr(f->error.what, row[i].why));
		else
			export_targets_free(&f->targets);
	}
	f->account.uid = 77;
	unlink(f->path);
	assert_int_equal(read_all(f), -ENOENT);
	assert_string_equal(f->error.code, "export-ca");
	assert_non_null(strstr(f->error.what, "No such file"));
	assert_string_equal(f->error.hint, "name a file of certificates in PEM form that the daemon's user (uid 77)"
			    " can read");
	f->config.export_ca = f->directory;
	assert_int_equal(read_all(f), -EINVAL);
	assert_non_null(strstr(f->error.what, "is not a file"));
}

/* Wherever memory ends, that is said, and nothing is left. */
static void no_memory(void **state)
{
	struct fixture *f = *state;
	unsigned n = 0;
	int err;

	set(f, "loki:http://a", "otlp-logs:http://a", "X: y");
	do {
		assert_true(n < 300);
		allocations_left = n++;
		failures_left = 1;
		err = read_all(f);
		if (err) {
			assert_int_equal(err, -ENOMEM);
			assert_string_equal(f->error.code, "out-of-memory");
			assert_int_equal(f->targets.count, 0);
		}
	} while (!failures_left);
	failures_left = allocations_left = 0;
	assert_int_equal(err, 0);
	export_targets_free(&f->targets);
	assert_true(n > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)
		TEST(a_destination_is_whole),
		TEST(its_consumer_has_a_name_for_ever),
		TEST(what_is_no_destination),
		TEST(a_header_goes_where_it_is_for),
		TEST(what_is_no_header),
		TEST(a_secret_is_the_first_line_of_its_file),
		TEST(an_authority_is_a_file_of_certificates),
		TEST(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
