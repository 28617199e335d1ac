/*
 * The replay source, from a file made here to the rings as the engine sees them: events, threads,
 * attachments and losses, what is asked for of them, and files that cannot be replayed.
 */
#include "tests/unit/daemon/small_replay.h"

#include <errno.h>
#include <stdio.h>

static void replays_events_threads_and_times(void **state)
{
	struct file file;
	struct engine e;
	uint64_t before;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 10);
	put_event(&file, CALL, 0, 0);
	put_event(&file, CALL, 0, 2);
	put_event(&file, WAKEUP, 1, 4);
	end_batch(&file);
	begin_batch(&file, 1, 0);
	put_event(&file, CALL, 1, 1);
	end_batch(&file);

	start(&e, file.path, true);
	assert_int_equal(e.rings, 2);
	assert_int_equal(source_replay.catalog(e.source)->n_probe, 3);
	before = clock_monotonic();
	want(&e, CALL);
	want(&e, WAKEUP);
	configure(&e);
	drain_at_the_end(&e);

	assert_int_equal(count_of(&e, RT_PROBE_THREAD), 4);	/* 100 and 201 and 7; 201 again */
	assert_int_equal(count_of(&e, CALL), 3);
	assert_int_equal(count_of(&e, WAKEUP), 1);
	for (unsigned i = 0; i < 3; i++) {
		const struct seen *call = nth_of(&e, CALL, i);
		uint64_t n = i < 2 ? i * 2 : 1;		/* CPU 1's is last */

		assert_int_equal(call->words, 3);
		assert_int_equal(call->payload[0], n);
		assert_int_equal(call->payload[1], n + 1);
		assert_int_equal(call->payload[2], n + 2);
		assert_int_equal(call->tid, n == 1 ? 201 : 100);
		assert_in_range(call->time_ns, before + LEAD_NS, clock_monotonic() + NS_PER_S);
		assert_int_equal(call->time_ns - nth_of(&e, CALL, 0)->time_ns, n * STEP_NS);
	}
	assert_int_equal(e.seen[0].probe, RT_PROBE_THREAD);	/* before its first event */
	assert_int_equal(e.seen[0].tid, 100);
	assert_string_equal(((struct rt_thread *)e.seen[0].payload)->comm, "shell");
	assert_int_equal(((struct rt_thread *)e.seen[0].payload)->uid, 1000);
	assert_int_equal(nth_of(&e, RT_PROBE_THREAD, 2)->tid, 7);	/* named by a field */
	assert_int_equal(((struct rt_thread *)nth_of(&e, RT_PROBE_THREAD, 2)->payload)->flags,
			 RT_THREAD_KERNEL);
	end(&e);
	remove_file(&file);
}

static void records_nothing_before_a_probe_is_enabled(void **state)
{
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	end_batch(&file);
	start(&e, file.path, true);
	configure(&e);
	usleep(20000);
	drain(&e);
	assert_int_equal(e.records, 0);
	assert_false(source_replay.finished(e.source));
	want(&e, CALL);
	configure(&e);
	drain_to_the_end(&e);
	assert_int_equal(count_of(&e, CALL), 1);
	end(&e);
	remove_file(&file);
}

/* However long its reader takes; and a reader of nothing is none. */
static void plays_nothing_before_its_reader_has_joined(void **state)
{
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	end_batch(&file);
	start(&e, file.path, true);
	source_replay.joined(e.source);
	want(&e, CALL);
	ask(&e);
	usleep(250000);
	drain(&e);
	assert_int_equal(e.records, 0);
	assert_false(source_replay.finished(e.source));
	source_replay.joined(e.source);
	drain_to_the_end(&e);
	assert_int_equal(count_of(&e, CALL), 1);
	end(&e);
	remove_file(&file);
}

static void honours_probes_and_clauses(void **state)
{
	static const struct rt_filter_clause clause[] = {
		{ .pid_op = RT_FILTER_EQ, .pid = 200 },
		{ .pid_op = RT_FILTER_NE, .pid = 200 },
		{ .tid_op = RT_FILTER_EQ, .tid = 100 },
		{ .uid_op = RT_FILTER_EQ, .uid = 0 },
		{ .comm_op = RT_FILTER_EQ, .comm = "shell" },
		{ .comm_op = RT_FILTER_NE, .comm = "shell" },
		{ .comm_op = RT_FILTER_EQ, .comm = "shell", .uid_op = RT_FILTER_EQ },
	};
	static const unsigned passing[] = { 2, 1, 1, 2, 1, 2, 0 };
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	put_event(&file, CALL, 1, 1);
	put_event(&file, WAKEUP, 1, 2);
	put_event(&file, CALL, 1, 3);
	end_batch(&file);
	for (unsigned i = 0; i < sizeof(clause) / sizeof(clause[0]); i++) {
		start(&e, file.path, true);
		e.request.clauses = 1;
		e.request.clause[0] = clause[i];
		want(&e, CALL);
		configure(&e);
		drain_to_the_end(&e);
		assert_int_equal(count_of(&e, CALL), passing[i]);
		assert_int_equal(count_of(&e, WAKEUP), 0);
		end(&e);
	}
	start(&e, file.path, true);
	e.request.clauses = 2;
	e.request.clause[0] = clause[0];
	e.request.clause[1] = clause[2];
	want(&e, CALL);
	configure(&e);
	drain_to_the_end(&e);
	assert_int_equal(count_of(&e, CALL), 3);
	end(&e);
	remove_file(&file);
}

static void carries_attachments_that_are_asked_for(void **state)
{
	static const uint64_t frame[] = { 0xffff1, 0xffff2 };
	const struct seen *call;
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	assert_true(batch_encode_string(file.encoder, 2, "/etc/passwd", 11));
	assert_true(batch_encode_stack(file.encoder, true, frame, 2));
	assert_true(batch_encode_stack(file.encoder, false, frame, 1));
	put_event(&file, EXEC, 0, 1);
	assert_true(batch_encode_string(file.encoder, 1, "/bin/sh", 7));
	put_event(&file, WAKEUP, 0, 2);
	assert_true(batch_encode_string(file.encoder, 2, "text", 4));
	end_batch(&file);

	start(&e, file.path, true);
	want(&e, CALL);
	want(&e, EXEC);
	e.request.flags = RT_FLAG_KSTACK;
	configure(&e);
	drain_to_the_end(&e);
	call = nth_of(&e, CALL, 0);
	assert_int_equal(call->words, 3 + 1 + 2);
	assert_int_equal(call->payload[3], RT_ATTACH_KSTACK | 16ull << 32);
	assert_memory_equal(&call->payload[4], frame, sizeof(frame));
	assert_int_equal(nth_of(&e, EXEC, 0)->words, 2 + 1 + 1);	/* always */
	assert_int_equal(nth_of(&e, EXEC, 0)->payload[2], RT_ATTACH_STRING | 1ull << 16 | 7ull << 32);
	end(&e);

	start(&e, file.path, true);
	want(&e, CALL);
	e.request.flags = RT_FLAG_USTACK;
	configure(&e);
	drain_to_the_end(&e);
	call = nth_of(&e, CALL, 0);
	assert_int_equal(call->words, 3 + 1 + 1);
	assert_int_equal(call->payload[3], RT_ATTACH_USTACK | 8ull << 32);
	assert_int_equal(call->payload[4], frame[0]);
	end(&e);

	start(&e, file.path, true);
	want(&e, CALL);
	want(&e, WAKEUP);
	e.request.flags = RT_FLAG_STRINGS;
	configure(&e);
	drain_to_the_end(&e);
	call = nth_of(&e, CALL, 0);
	assert_int_equal(call->words, 3 + 1 + 2);
	assert_int_equal(call->payload[3], RT_ATTACH_STRING | 0ull << 16 | 11ull << 32);
	assert_memory_equal(&call->payload[4], "/etc/passwd\0\0\0\0\0", 16);
	/* What is no call has no result and duration before its arguments. */
	assert_int_equal(nth_of(&e, WAKEUP, 0)->payload[3], RT_ATTACH_STRING | 2ull << 16 | 4ull << 32);
	end(&e);
	remove_file(&file);
}

static void replays_losses_and_gaps_in_place(void **state)
{
	static const struct {
		uint32_t reason;
		enum rt_lost lost;
	} reason[] = {
		{ LOSS_REASON_RING_FULL, RT_LOST_FULL },
		{ LOSS_REASON_NEST, RT_LOST_NEST },
		{ LOSS_REASON_STOPPED, RT_LOST_STOPPED },
		{ LOSS_REASON_BUSY, RT_LOST_BUSY },
		{ LOSS_REASON_BAD_RECORD, RT_LOST_FULL },
	};
	unsigned reasons = sizeof(reason) / sizeof(reason[0]);
	uint64_t lost[RT_LOST_REASONS] = { 0 };
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	for (unsigned i = 0; i < reasons; i++)
		batch_encode_loss(file.encoder, i + 1, 0, reason[i].reason);
	put_event(&file, CALL, 0, 1);
	end_batch(&file);
	put_gap(&file, 0, 17, 117, 30);
	put_gap(&file, 0, 117, 118, 0);
	begin_batch(&file, 0, 118);
	put_event(&file, CALL, 0, 2);
	end_batch(&file);
	put_gap(&file, 0, 119, 121, 0);

	start(&e, file.path, true);
	want(&e, CALL);
	configure(&e);
	drain_to_the_end(&e);
	assert_int_equal(count_of(&e, CALL), 3);
	assert_int_equal(e.lost, 15 + 30 + 1 + 2);
	for (unsigned i = 0, calls = 0, so_far = 0; i < e.n; i++) {
		static const unsigned before[] = { 0, 15, 46 };

		if (e.seen[i].read == RING_LOST) {
			so_far += e.seen[i].count;
			lost[e.seen[i].reason] += e.seen[i].count;
		} else if (e.seen[i].probe == CALL) {
			assert_int_equal(so_far, before[calls++]);
		}
	}
	assert_int_equal(lost[RT_LOST_FULL], 1 + 5 + 30 + 1 + 2);
	assert_int_equal(lost[RT_LOST_NEST], 2);
	assert_int_equal(lost[RT_LOST_STOPPED], 3);
	assert_int_equal(lost[RT_LOST_BUSY], 4);
	end(&e);
	remove_file(&file);
}

/* ---- Files that cannot be replayed ----------------------------------------------------------- */

static void refuse(const char *path, int err, const char *code, const char *says)
{
	struct source_config config = { .ring_bytes = RT_RING_BYTES_MIN, .path = path };
	struct source *source = NULL;
	struct error error = { 0 };

	assert_int_equal(source_replay.open(&config, &source, &error), err);
	assert_null(source);
	assert_string_equal(error.code, code);
	if (!strstr(error.what, says))
		fail_msg("\"%s\" does not say \"%s\"", error.what, says);
}

static void refuses_what_cannot_be_read(void **state)
{
	(void)state;
	refuse(NULL, -EINVAL, "replay-no-file", "replay:FILE");
	refuse("/nonexistent/x.rt", -ENOENT, "recording-unreadable", "/nonexistent/x.rt");
	refuse("/tmp", -EISDIR, "recording-unreadable", "/tmp");
	refuse("/dev/null", -EBADMSG, "recording-foreign", "at byte 0");
	refuse("/proc/self/exe", -EBADMSG, "recording-foreign", "not a ringtail frame");
}

static void refuses_corrupt_files_with_the_offset(void **state)
{
	uint64_t catalog_at, batch_at;
	char says[64];
	struct file file;
	uint8_t byte;

	(void)state;
	open_file(&file);
	put_catalog(&file, 2);
	refuse(file.path, -EBADMSG, "recording-foreign", "begins with a catalog");
	remove_file(&file);

	open_file(&file);
	put_hello(&file);
	catalog_at = file.bytes;
	put_catalog(&file, 2);
	batch_at = file.bytes;
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	end_batch(&file);
	snprintf(says, sizeof(says), "at byte %zu:", (size_t)batch_at);

	assert_int_equal(ftruncate(file.fd, file.bytes - 1), 0);
	refuse(file.path, -EBADMSG, "recording-corrupt", says);
	assert_int_equal(ftruncate(file.fd, batch_at + 5), 0);
	refuse(file.path, -EBADMSG, "recording-corrupt", says);

	snprintf(says, sizeof(says), "at byte %zu:", (size_t)catalog_at);
	assert_int_equal(pread(file.fd, &byte, 1, batch_at - 3), 1);
	byte ^= 1;
	assert_int_equal(pwrite(file.fd, &byte, 1, batch_at - 3), 1);
	refuse(file.path, -EBADMSG, "recording-corrupt", says);
	remove_file(&file);
}

static void refuses_frames_that_do_not_fit(void **state)
{
	struct file file;

	(void)state;
	open_recording(&file);
	put_catalog(&file, 1);
	refuse(file.path, -EBADMSG, "recording-corrupt", "not what it was");
	remove_file(&file);

	open_file(&file);	/* events before the catalog that explains them */
	put_hello(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	end_batch(&file);
	refuse(file.path, -EBADMSG, "recording-corrupt", "catalog");
	remove_file(&file);

	open_recording(&file);
	put_frame(&file, FRAME_BATCH, (const uint8_t *)"\xff\xff\xff", 3);
	refuse(file.path, -EBADMSG, "recording-corrupt", "at byte");
	remove_file(&file);

	open_recording(&file);
	put_gap(&file, RT_CPUS_MAX, 0, 1, 0);
	refuse(file.path, -EBADMSG, "recording-corrupt", "CPU 1024");
	remove_file(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replays_events_threads_and_times),
		cmocka_unit_test(records_nothing_before_a_probe_is_enabled),
		cmocka_unit_test(plays_nothing_before_its_reader_has_joined),
		cmocka_unit_test(honours_probes_and_clauses),
		cmocka_unit_test(carries_attachments_that_are_asked_for),
		cmocka_unit_test(replays_losses_and_gaps_in_place),
		cmocka_unit_test(refuses_what_cannot_be_read),
		cmocka_unit_test(refuses_corrupt_files_with_the_offset),
		cmocka_unit_test(refuses_frames_that_do_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
