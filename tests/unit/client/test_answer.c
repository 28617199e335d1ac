/* test_answer: tables of several hosts, whose clocks differ and who do not tell at the same time. */
#include "tests/unit/client/check.h"

#include <fcntl.h>
#include <stdlib.h>

#include "client/cli/answer.h"
#include "client/cli/answer_table.h"
#include "client/cli/stack_names.h"

#define SECOND	1000000000ull

static struct out out;
static struct ringtail_host red = { .hostname = "red", .monotonic_ns = 7 * SECOND, .realtime_ns = 1000 * SECOND };
static struct ringtail_host blue = { .hostname = "blue", .monotonic_ns = 90 * SECOND, .realtime_ns = 1000 * SECOND };
static const struct ringtail_probe probe = {
	.spec = "a:b:c", .provider = "a", .function = "b", .name = "c", .kind = RINGTAIL_TRACEPOINT,
};

struct two {
	struct sink *red, *blue;
};

static int setup(void **state)
{
	(void)state;
	check_out(&out);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(out.fd);
	return 0;
}

static struct two ask(struct answer_question question)
{
	struct sink_place place = { .out = &out, .host = &red };
	struct two two = { .red = answer_create(&question, &out, NULL) };

	assert_non_null(two.red);
	assert_ptr_equal(answer_ops.join(two.red, &place), two.red);
	place.host = &blue;
	place.label = "azure";
	two.blue = answer_ops.join(two.red, &place);
	assert_non_null(two.blue);
	return two;
}

/* At a time of the wall clock, in ms since both hosts' clocks were compared. */
static void tell(struct sink *sink, const struct ringtail_host *host, enum ringtail_kind kind, uint64_t at_ms,
		 uint64_t count)
{
	struct ringtail_item item = {
		.kind = kind, .time_ns = host->monotonic_ns + at_ms * 1000000, .probe = &probe, .count = count,
	};

	answer_ops.item(sink, &item);
}

static void events(struct sink *sink, const struct ringtail_host *host, uint64_t at_ms, unsigned n)
{
	while (n--)
		tell(sink, host, RINGTAIL_EVENT, at_ms, 0);
}

static void end(struct two two)
{
	answer_ops.end(two.red);
	answer_ops.end(two.blue);
	answer_ops.destroy(two.red);
	answer_ops.destroy(two.blue);
}

#define PER_SECOND (struct answer_question){ .by = "host", .interval_ns = SECOND }
#define HEAD	"       COUNT  host\n"

static void added_up(void **state)
{
	struct two two = ask((struct answer_question){ .by = "probe" });

	(void)state;
	events(two.red, &red, 10, 3);
	events(two.blue, &blue, 5, 4);
	tell(two.blue, &blue, RINGTAIL_LOSS, 6, 9);
	answer_ops.end(two.red);
	assert_string_equal(check_text(&out), "");	/* the other has not ended */
	answer_ops.destroy(two.red);
	answer_ops.end(two.blue);
	answer_ops.destroy(two.blue);
	assert_string_equal(check_text(&out), "       COUNT  probe\n       7..16  a:b:c\n"
			    "up to 9 more events were lost: a count above may be so much higher\n");
}

/* One is ahead: what it tells is counted behind the end, which comes when the other has come there. */
static void ends_when_all_have_told(void **state)
{
	struct two two = ask(PER_SECOND);

	(void)state;
	events(two.red, &red, 0, 1);
	events(two.blue, &blue, 10, 2);
	events(two.red, &red, 1100, 4);
	tell(two.red, &red, RINGTAIL_LOSS, 1200, 5);
	events(two.blue, &blue, 999, 8);
	assert_string_equal(check_text(&out), "");
	tell(two.blue, &blue, RINGTAIL_WATERMARK, 1000, 0);
	assert_string_equal(check_text(&out), "--- 1.00s, 11 events ---\n" HEAD "          10  azure\n"
			    "           1  red\n");
	events(two.blue, &blue, 1700, 16);
	end(two);
	assert_string_equal(check_text(&out), "--- 700ms, 20 events ---\n" HEAD "      16..21  azure\n"
			    "        4..9  red\n"
			    "up to 5 more events were lost: a count above may be so much higher\n");
}

/* Who is not connected, or is more than an interval behind, holds nobody up. */
static void nobody_is_held_up(void **state)
{
	struct two two = ask(PER_SECOND);

	(void)state;
	events(two.red, &red, 0, 1);
	events(two.blue, &blue, 10, 2);
	events(two.red, &red, 1999, 1);
	assert_string_equal(check_text(&out), "");
	events(two.red, &red, 2000, 1);
	assert_string_equal(check_text(&out), "--- 1.00s, 3 events ---\n" HEAD "           2  azure\n"
			    "           1  red\n");
	tell(two.blue, &blue, RINGTAIL_DISCONNECTED, 0, 0);
	events(two.red, &red, 2001, 1);
	assert_string_equal(check_text(&out), "--- 1.00s, 1 events ---\n" HEAD "           1  red\n");
	tell(two.blue, &blue, RINGTAIL_RECONNECTED, 0, 0);
	events(two.red, &red, 3500, 1);
	assert_string_equal(check_text(&out), "");
	answer_ops.end(two.blue);
	events(two.red, &red, 3501, 1);
	assert_string_equal(check_text(&out), "--- 1.00s, 2 events ---\n" HEAD "           2  red\n");
	answer_ops.end(two.red);
	assert_string_equal(check_text(&out), "--- 501ms, 2 events ---\n" HEAD "           2  red\n");
	answer_ops.destroy(two.red);
	answer_ops.destroy(two.blue);
}

/* What came of the next interval is not lost when all end before it. */
static void ends_behind_the_end(void **state)
{
	struct two two = ask(PER_SECOND);

	(void)state;
	events(two.red, &red, 0, 1);
	events(two.blue, &blue, 1300, 2);
	end(two);
	assert_string_equal(check_text(&out), "--- 1.00s, 1 events ---\n" HEAD "           1  red\n"
			    "--- 300ms, 2 events ---\n" HEAD "           2  azure\n");
}

/* Of the past one host comes behind the other: each event is in its own interval. */
static void the_past_in_any_order(void **state)
{
	const struct ringtail_item gap = { .kind = RINGTAIL_GAP };	/* before anything that has a time */
	struct answer_question question = PER_SECOND;
	struct two two;

	(void)state;
	setenv("TZ", "UTC0", 1);
	question.past = true;
	two = ask(question);
	answer_ops.item(two.red, &gap);
	events(two.red, &red, 100, 1);
	events(two.red, &red, 5100, 2);
	tell(two.red, &red, RINGTAIL_LOSS, 5200, 7);
	events(two.red, &red, 2100, 4);
	assert_string_equal(check_text(&out), "");
	answer_ops.end(two.red);
	events(two.blue, &blue, 200, 8);
	events(two.blue, &blue, 2999, 16);
	answer_ops.end(two.blue);
	assert_string_equal(check_text(&out), "--- 1970-01-01 00:16:40, 9 events ---\n" HEAD "           8  azure\n"
			    "           1  red\n"
			    "--- 1970-01-01 00:16:42, 20 events ---\n" HEAD "          16  azure\n"
			    "           4  red\n"
			    "--- 1970-01-01 00:16:45, 2 events ---\n" HEAD "        2..9  red\n"
			    "up to 7 more events were lost: a count above may be so much higher\n"
			    "--- no known interval, 0 events ---\n" HEAD
			    "an unknown number of events is missing too (1 gaps)\n");
	answer_ops.destroy(two.red);
	answer_ops.destroy(two.blue);
}

static const struct ringtail_field number = {
	.name = "id", .c_type = "u64", .type = RINGTAIL_UNSIGNED, .bits = 64,
};
static const struct ringtail_probe begins = {
	.id = 1, .spec = "app:begins:x", .provider = "app", .function = "begins", .name = "x",
	.kind = RINGTAIL_TRACEPOINT, .field = &number, .fields = 1,
};
static const struct ringtail_probe ends = {
	.id = 2, .spec = "app:ends:x", .provider = "app", .function = "ends", .name = "x",
	.kind = RINGTAIL_TRACEPOINT, .field = &number, .fields = 1,
};

static void mark(struct sink *sink, const struct ringtail_probe *of, uint64_t at_ms, uint64_t id)
{
	struct ringtail_item item = {
		.kind = RINGTAIL_EVENT, .time_ns = red.monotonic_ns + at_ms * 1000000, .probe = of, .value = &id,
	};

	answer_ops.item(sink, &item);
}

/* Pairs are counted; those that were open when events were lost are given up, and told. */
static void pairs_and_what_was_lost(void **state)
{
	struct two two = ask((struct answer_question){
		.by = "host", .from = "app:begins:x", .to = "app:ends:x", .on = "id",
	});

	(void)state;
	mark(two.red, &begins, 10, 1);
	mark(two.red, &begins, 11, 2);
	mark(two.red, &ends, 12, 1);
	mark(two.red, &ends, 13, 2);
	mark(two.red, &begins, 20, 3);
	mark(two.red, &begins, 21, 4);
	mark(two.red, &begins, 22, 5);
	tell(two.red, &red, RINGTAIL_LOSS, 23, 7);
	mark(two.red, &ends, 24, 3);
	end(two);
	assert_string_equal(check_text(&out), HEAD "        2..9  red\n"
			    "up to 7 more events were lost: a count above may be so much higher\n"
			    "3 beginnings were given up, because an end may be among what was lost\n");
}

static void at_stack(struct sink *sink, uint32_t pid, const uint64_t *frame, unsigned frames, uint64_t id)
{
	const struct ringtail_attachment stack = {
		.kind = RINGTAIL_ATTACHED_USTACK, .frame = frame, .frames = frames,
	};
	struct ringtail_item item = {
		.kind = RINGTAIL_EVENT, .time_ns = red.monotonic_ns, .probe = &begins, .value = &id,
		.thread = { .pid = pid }, .attachment = &stack, .attachments = 1,
	};

	answer_ops.item(sink, &item);
}

/* A file that a process has mapped from that address on. */
static void map(struct sink *sink, uint32_t pid, uint64_t start, const char *path)
{
	static const struct ringtail_probe mapped = {.spec = MAP_SPEC, .fields = MAP_FIELDS};
	const uint64_t value[MAP_FIELDS] = {start, 0x1000, 0, 0, 0, 0, 1, 1};
	const struct ringtail_attachment text = {
		.kind = RINGTAIL_ATTACHED_STRING, .field = 8, .text = (const uint8_t *)path, .text_bytes = strlen(path),
	};
	const struct ringtail_item item = {
		.kind = RINGTAIL_EVENT, .time_ns = red.monotonic_ns, .probe = &mapped, .value = value,
		.thread = { .pid = pid }, .attachment = &text, .attachments = 1,
	};

	answer_ops.item(sink, &item);
}

/* Whatever the process and the place in the function: what reads alike is one row. */
static void stacks_that_are_called_the_same(void **state)
{
	static const uint64_t one[] = { 0x5010, 0x7010 }, two[] = { 0x5020, 0x7020 }, other[] = { 0x7010, 0x5010 };
	struct two hosts = ask((struct answer_question){ .by = "pid,stack", .of = "id" });

	(void)state;
	for (uint32_t pid = 1; pid <= 2; pid++) {
		map(hosts.red, pid, 0x5000, "/lib/c");
		map(hosts.red, pid, 0x7000, "/bin/a");
	}
	at_stack(hosts.red, 1, two, 2, 10);
	at_stack(hosts.red, 1, one, 2, 30);
	at_stack(hosts.red, 1, one, 2, 50);
	at_stack(hosts.red, 1, other, 2, 7);
	at_stack(hosts.red, 1, one, 1, 6);
	at_stack(hosts.red, 2, one, 2, 4);
	mark(hosts.red, &begins, 10, 3);
	end(hosts);
	assert_string_equal(check_text(&out), "       COUNT        SUM        MIN       MEAN        MAX  pid  stack\n"
			    "           3         90         10         30         50  1  /bin/a;/lib/c\n"
			    "           1          7          7          7          7  1  /lib/c;/bin/a\n"
			    "           1          6          6          6          6  1  /lib/c\n"
			    "           1          4          4          4          4  2  /bin/a;/lib/c\n"
			    "           1          3          3          3          3  0  -\n");
	hosts = ask((struct answer_question){ .by = "stack", .top = 1 });
	for (uint32_t pid = 1; pid <= 40; pid++) {
		map(hosts.red, pid, 0x5000, "/lib/c");
		map(hosts.red, pid, 0x7000, "/bin/a");
		at_stack(hosts.red, pid, one, 2, 0);
		at_stack(hosts.red, 1, other, 2, 0);
	}
	tell(hosts.red, &red, RINGTAIL_LOSS, 6, 9);
	at_stack(hosts.red, 1, two, 2, 0);
	end(hosts);
	assert_string_equal(check_text(&out), "       COUNT  stack\n      41..50  /bin/a;/lib/c\n"
			    "up to 9 more events were lost: a count above may be so much higher\n");
}

static const struct ringtail_field calls[] = {
	{ .name = "duration_ns", .type = RINGTAIL_DURATION, .bits = 64 }, { .name = "ret", .type = RINGTAIL_RESULT, .bits = 64 },
	{ .name = "dfd", .type = RINGTAIL_FD, .bits = 32 },
};
static const struct ringtail_probe openat_call = {
	.id = 3, .spec = "syscall:openat:call", .provider = "syscall", .function = "openat", .name = "call",
	.kind = RINGTAIL_CALL, .field = calls, .fields = 3,
};

/* AT_FDCWD stands for the working directory: it is no descriptor that could be added to others. */
static void no_descriptor_is_below_zero(void **state)
{
	struct two two = ask((struct answer_question){ .by = "function", .of = "dfd" });
	const uint64_t of[] = { 7, (uint64_t)AT_FDCWD, (uint32_t)AT_FDCWD, 5 };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		uint64_t value[] = { 100, 3, of[i] };
		struct ringtail_item item = {
			.kind = RINGTAIL_EVENT, .time_ns = red.monotonic_ns, .probe = &openat_call, .value = value,
		};

		answer_ops.item(two.red, &item);
	}
	end(two);
	assert_string_equal(check_text(&out), "       COUNT        SUM        MIN       MEAN        MAX  function\n"
			    "           4         12          5          6          7  openat\n");
}

static const struct ringtail_field shown[] = {
	{ .name = "id", .c_type = "u64", .type = RINGTAIL_UNSIGNED, .bits = 64 },
	{ .name = "shown", .c_type = "char *", .type = RINGTAIL_STRING, .bits = 64 },
};
static const struct ringtail_probe opens = {
	.id = 6, .spec = "app:opens:x", .provider = "app", .function = "opens", .name = "x",
	.kind = RINGTAIL_TRACEPOINT, .field = shown, .fields = 2,
};
static const struct ringtail_probe closes = {
	.id = 7, .spec = "app:closes:x", .provider = "app", .function = "closes", .name = "x",
	.kind = RINGTAIL_TRACEPOINT, .field = shown, .fields = 2,
};

static void show(struct sink *sink, const struct ringtail_probe *of, const char *text)
{
	const uint64_t value[] = { 1, 0 };
	const struct ringtail_attachment attached = {
		.kind = RINGTAIL_ATTACHED_STRING, .field = 1, .text = (const uint8_t *)text, .text_bytes = strlen(text),
	};
	struct ringtail_item item = {
		.kind = RINGTAIL_EVENT, .time_ns = red.monotonic_ns, .probe = of, .value = value,
		.attachment = &attached, .attachments = 1,
	};

	answer_ops.item(sink, &item);
}

/* What both events have is longer than a key: it is cut, and each part has its end. */
static void parts_of_both_that_do_not_fit(void **state)
{
	struct two two = ask((struct answer_question){
		.by = "to.shown,shown", .from = "app:opens:x", .to = "app:closes:x", .on = "id", .json = true,
	});
	char text[ANSWER_KEY_BYTES_MAX + 1];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	show(two.red, &opens, text);
	text[0] = 'b';
	show(two.red, &closes, text);
	end(two);
	assert_non_null(strstr(check_text(&out), "{\"shown\":\"\",\"to.shown\":\"baaa"));
}

/* What began again before its end was seen is no pair, and is told. */
static void pairs_that_begin_again(void **state)
{
	struct two two = ask((struct answer_question){
		.by = "host", .from = "app:begins:x", .to = "app:ends:x", .on = "id",
	});

	(void)state;
	mark(two.red, &begins, 10, 1);
	mark(two.red, &begins, 11, 1);
	mark(two.red, &ends, 12, 1);
	mark(two.red, &begins, 13, 2);
	end(two);
	assert_string_equal(check_text(&out), HEAD "           1  red\n"
			    "1 beginnings without an end: the same began again before an end was seen; see --from in tracectl(1)\n"
			    "1 had not ended yet\n");
}

/* A pair is of who did the first event, whoever does the second; of one that nobody has introduced, nobody knows. */
static void pairs_of_whom(void **state)
{
	static const struct { uint32_t tid, pid; char comm[16]; } who[] = {
		{ 11, 10, "nginx" }, { 12, 10, "a-name-of-fifte" }, { 13, 13, "nginx" }, { 14, 14, "ngin" }, { 15, 0, "" },
	};
	struct texts pid = { .n = 1, .text = { "10" } }, comm = { .n = 2, .text = { "ngin[x]", "a-name-of-fifteen" } };
	struct two two = ask((struct answer_question){
		.by = "comm", .from = "app:begins:x", .to = "app:ends:x", .on = "id", .pid = &pid, .comm = &comm,
	});

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		uint64_t id = 100 + i;
		struct ringtail_item item = {
			.kind = RINGTAIL_EVENT, .time_ns = red.monotonic_ns, .probe = &begins, .value = &id,
			.thread = { .tid = who[i].tid, .pid = who[i].pid },
		};

		memcpy(item.thread.comm, who[i].comm, sizeof(who[i].comm));
		answer_ops.item(two.red, &item);
	}
	for (unsigned i = 0; i < 5; i++)
		mark(two.red, &ends, 5, 100 + i);
	/* What began by one of them began again by another, whose end this is. */
	for (unsigned i = 0; i < 4; i += 3) {
		uint64_t id = 200;
		struct ringtail_item item = {
			.kind = RINGTAIL_EVENT, .time_ns = red.monotonic_ns, .probe = &begins, .value = &id,
			.thread = { .tid = who[i].tid, .pid = who[i].pid },
		};

		memcpy(item.thread.comm, who[i].comm, sizeof(who[i].comm));
		answer_ops.item(two.red, &item);
	}
	mark(two.red, &ends, 6, 200);
	end(two);
	assert_string_equal(check_text(&out), "       COUNT  comm\n           1  a-name-of-fifte\n           1  nginx\n"
			    "1 beginnings without an end: the same began again before an end was seen; see --from in tracectl(1)\n"
			    "1 more may be of those that are asked for: no event told whose they are\n");
}

static const struct ringtail_field woken = {
	.name = "target", .c_type = "pid_t", .type = RINGTAIL_THREAD, .bits = 32,
};
static const struct ringtail_probe wakes = {
	.id = 4, .spec = "app:wakes:x", .provider = "app", .function = "wakes", .name = "x",
	.kind = RINGTAIL_TRACEPOINT, .field = &woken, .fields = 1,
};
static const struct ringtail_probe runs = {
	.id = 5, .spec = "app:runs:x", .provider = "app", .function = "runs", .name = "x", .kind = RINGTAIL_TRACEPOINT,
};

static void by_thread(struct sink *sink, const struct ringtail_probe *of, uint32_t tid, const char *comm, uint64_t target)
{
	struct ringtail_item item = {
		.kind = RINGTAIL_EVENT, .time_ns = red.monotonic_ns, .probe = of, .value = &target,
		.thread = { .tid = tid, .pid = tid },
	};

	snprintf(item.thread.comm, sizeof(item.thread.comm), "%s", comm);
	answer_ops.item(sink, &item);
}

/* It is of the thread whose number --on begins with: its end tells who that is if the beginning does not. */
static void pairs_of_the_thread_that_is_named(void **state)
{
	struct texts comm = { .n = 1, .text = { "woken" } };
	struct two two = ask((struct answer_question){
		.by = "host", .from = "app:wakes:x", .to = "app:runs:x", .on = "target=tid", .comm = &comm, .json = true,
	});
	const char *text;

	(void)state;
	by_thread(two.red, &wakes, 1, "woken", 7);	/* by one of that name: that does not count */
	by_thread(two.red, &wakes, 1, "waker", 8);
	by_thread(two.red, &wakes, 1, "waker", 9);
	by_thread(two.red, &wakes, 1, "waker", 0);	/* the idle task is nobody's */
	by_thread(two.red, &runs, 7, "other", 0);
	by_thread(two.red, &runs, 8, "woken", 0);
	by_thread(two.red, &runs, 9, "", 0);
	by_thread(two.red, &runs, 0, "woken", 0);
	end(two);
	text = check_text(&out);
	assert_non_null(strstr(text, "{\"count\":1,"));
	assert_non_null(strstr(text, "\"events\":1,"));
	assert_non_null(strstr(text, "\"nameless\":1,\"open\":0,"));
}

/* Events of others only: that no event had a name would be wrong to say. */
static void pairs_of_who_does_nothing(void **state)
{
	struct texts comm = { .n = 1, .text = { "nginx" } };
	struct two two = ask((struct answer_question){
		.by = "comm", .from = "app:wakes:x", .to = "app:runs:x", .on = "target=tid", .of = "duration", .comm = &comm,
	});

	(void)state;
	by_thread(two.red, &wakes, 1, "waker", 1);
	by_thread(two.red, &runs, 1, "waker", 0);
	end(two);
	assert_string_equal(check_text(&out), "       COUNT        SUM        MIN       MEAN        MAX  comm\n");
}

/* Nothing at all would look like a fault. */
static void a_hist_of_nothing(void **state)
{
	(void)state;
	end(ask((struct answer_question){ .shape = ANSWER_HIST, .by = "host", .of = "id" }));
	assert_string_equal(check_text(&out), "no event had a value\n");
}

static void pairs_of_nobody(void **state)
{
	struct texts pid = { .n = 1, .text = { "0" } }, comm = { .n = 1, .text = { "" } };
	struct answer_question question = { .from = "a", .to = "b", .on = "tid", .pid = &pid };
	struct ringtail_error error;

	(void)state;
	assert_null(answer_create(&question, &out, &error));
	assert_string_equal(error.what, "--pid 0: is not the number of a process");
	question.pid = NULL;
	question.comm = &comm;
	assert_null(answer_create(&question, &out, &error));
	assert_string_equal(error.what, "--comm: the name of a thread is missing");
}

/* A switch from one thread to another. */
static void switches(struct sink *sink, uint32_t cpu, uint32_t from, uint64_t to, uint64_t at_ms)
{
	struct ringtail_item item = {
		.kind = RINGTAIL_EVENT, .time_ns = red.monotonic_ns + at_ms * 1000000, .probe = &begins,
		.value = &to, .cpu = cpu, .thread = { .tid = from },
	};

	answer_ops.item(sink, &item);
}

/* Each CPU has an idle thread, and all of them are thread 0. */
static void idle_threads_of_many_cpus(void **state)
{
	struct two two = ask((struct answer_question){
		.by = "cpu", .from = "app:begins:x", .to = "app:begins:x", .on = "tid=id", .of = "duration",
	});

	(void)state;
	switches(two.red, 0, 0, 7, 10);
	switches(two.red, 1, 0, 8, 11);
	switches(two.red, 0, 7, 0, 13);
	switches(two.red, 1, 8, 0, 16);
	end(two);
	assert_string_equal(check_text(&out), "       COUNT        SUM        MIN       MEAN        MAX  cpu\n"
			    "           1     5.00ms     5.00ms     5.00ms     5.00ms  1\n"
			    "           1     3.00ms     3.00ms     3.00ms     3.00ms  0\n"
			    "2 had not ended yet\n");
}

/* Sums and values of 64 bits are neither negative nor of two keys the same. */
static void numbers_of_64_bits(void **state)
{
	struct answer_question question = { .by = "id", .of = "id", .json = true };
	struct two two = ask(question);
	const char *text;

	(void)state;
	mark(two.red, &begins, 10, UINT64_MAX);
	mark(two.red, &begins, 11, UINT64_MAX);
	mark(two.red, &begins, 12, UINT64_MAX - 1);
	mark(two.red, &begins, 13, INT64_MAX);
	end(two);
	text = check_text(&out);
	assert_non_null(strstr(text, "\"key\":{\"id\":\"18446744073709551615\"},\"max\":1.8446744073709552e19,"
				     "\"min\":1.8446744073709552e19,"));
	assert_non_null(strstr(text, "\"sum\":3.6893488147419103e19,\"values\":2}"));
	assert_non_null(strstr(text, "\"key\":{\"id\":\"18446744073709551614\"}"));
	assert_non_null(strstr(text, "\"key\":{\"id\":9223372036854775807},\"max\":9223372036854775807,"));
	assert_null(strstr(text, ":-"));
}

static void a_sum_beyond_64_bits(void **state)
{
	struct two two = ask((struct answer_question){ .by = "host", .of = "id" });

	(void)state;
	mark(two.red, &begins, 10, 1ull << 63);
	mark(two.red, &begins, 11, 3ull << 62);
	end(two);
	assert_string_equal(check_text(&out), "       COUNT        SUM        MIN       MEAN        MAX  host\n"
			    "           2 2.3058e+19 9223372036854775808 11529215046068469760 13835058055282163712  red\n");
}

static void the_largest_sum_comes_first(void **state)
{
	struct two two = ask((struct answer_question){ .by = "host", .of = "id", .top = 1 });

	(void)state;
	mark(two.red, &begins, 10, 1);
	mark(two.red, &begins, 11, 2);
	mark(two.blue, &begins, 12, 4);
	end(two);
	assert_string_equal(check_text(&out), "       COUNT        SUM        MIN       MEAN        MAX  host\n"
			    "           1          4          4          4          4  azure\n");
}

static void the_most_events_come_first(void **state)
{
	struct two two = ask((struct answer_question){ .by = "host", .top = 1 });

	(void)state;
	mark(two.red, &begins, 10, 1);
	mark(two.red, &begins, 11, 2);
	mark(two.blue, &begins, 12, 4);
	end(two);
	assert_string_equal(check_text(&out), "       COUNT  host\n           2  red\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(added_up), TEST(ends_when_all_have_told), TEST(nobody_is_held_up), TEST(ends_behind_the_end),
		TEST(the_past_in_any_order),
		TEST(pairs_and_what_was_lost), TEST(no_descriptor_is_below_zero),
		TEST(stacks_that_are_called_the_same),
		TEST(pairs_of_whom), TEST(pairs_of_the_thread_that_is_named), TEST(pairs_of_nobody), TEST(a_hist_of_nothing), TEST(pairs_of_who_does_nothing),
		TEST(parts_of_both_that_do_not_fit),
		TEST(pairs_that_begin_again), TEST(idle_threads_of_many_cpus),
		TEST(numbers_of_64_bits), TEST(a_sum_beyond_64_bits),
		TEST(the_largest_sum_comes_first), TEST(the_most_events_come_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
