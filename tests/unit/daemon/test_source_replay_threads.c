/*
 * Who the threads of a replayed file are: what the rings are told of each, and how often.
 */
#include "tests/unit/daemon/small_replay.h"

#include <dirent.h>
#include <errno.h>

static const struct batch_text web = { .serial = 1, .data = "/bin/web", .bytes = 8 },
	shell = { .serial = 2, .data = "/bin/shell", .bytes = 10 },
	unit = { .serial = 3, .data = "/system.slice/web.service", .bytes = 25 },
	scope = { .serial = 4, .data = "/user.slice", .bytes = 11 },
	/* The same length as another's, and the same letters as another's. */
	well = { .serial = 5, .data = "/bin/wel", .bytes = 8 }, cgroup_web = { .serial = 6, .data = "/bin/web", .bytes = 8 },
	nothing = { .serial = 7, .data = "", .bytes = 0 };

static const struct batch_thread whoever = {
	.tid = 301, .pid = 300, .ppid = 1, .uid = 5, .comm = "web", .cgroup_id = 77, .exe = &web, .cgroup = &unit,
};

static void open_with_context(struct file *file)
{
	open_recording(file);
	batch_encoder_set_context(file->encoder, true);
}

/* The n-th moment; a thread that is introduced anew, whoever it was before. */
static void put_call_of(struct file *file, const struct batch_thread *thread, uint64_t n)
{
	uint64_t field[] = { n, n + 1, n + 2 }, slot = 0;
	struct batch_event event = {
		.probe = CALL, .fields = 3, .has_duration = true, .time_ns = RECORDED_NS + n * STEP_NS, .field = field,
		.thread = batch_encode_thread(file->encoder, thread, &slot),
	};

	assert_true(event.thread != UINT32_MAX);
	assert_true(batch_encode_event(file->encoder, &event));
}

static void replay_calls(struct engine *e, const struct file *file)
{
	start(e, file->path, true);
	want(e, CALL);
	configure(e);
	drain_at_the_end(e);
}

/* The text that an id stands for, told on that CPU before the n-th record seen. */
static void assert_told(const struct engine *e, unsigned n, uint64_t id, const struct batch_text *text)
{
	if (!text || !text->bytes) {
		assert_int_equal(id, 0);
		return;
	}
	assert_int_not_equal(id, 0);
	for (unsigned i = 0; i < n; i++) {
		const struct seen *seen = &e->seen[i];

		if (seen->read != RING_RECORD || seen->probe != RT_PROBE_TEXT || seen->cpu != e->seen[n].cpu ||
		    seen->payload[0] != id)
			continue;
		assert_int_equal(seen->payload[1], text->bytes);
		assert_int_equal(seen->words, 2 + (text->bytes + 7) / 8);
		assert_memory_equal(&seen->payload[2], text->data, text->bytes);
		return;
	}
	fail_msg("nothing says what the text %#llx is", (unsigned long long)id);
}

static void assert_introduced(const struct engine *e, unsigned n, const struct batch_thread *thread)
{
	const struct seen *seen = &e->seen[n];
	const struct rt_thread *told = (const void *)seen->payload;

	assert_int_equal(seen->read, RING_RECORD);
	assert_int_equal(seen->probe, RT_PROBE_THREAD);
	assert_int_equal(seen->tid, thread->tid);
	assert_int_equal(told->pid, thread->pid);
	assert_int_equal(told->ppid, thread->ppid);
	assert_int_equal(told->uid, thread->uid);
	assert_int_equal(told->flags, thread->kernel ? RT_THREAD_KERNEL : 0);
	assert_int_equal(told->start_ns, seen->time_ns);
	assert_int_equal(told->cgroup_id, thread->cgroup_id);
	assert_string_equal(told->comm, thread->comm);
	assert_told(e, n, told->exe, thread->exe);
	assert_told(e, n, told->cgroup, thread->cgroup);
}

/* Where the next record of that probe is, from the n-th on. */
static unsigned next_of(const struct engine *e, uint16_t probe, unsigned n)
{
	while (n < e->n && (e->seen[n].read != RING_RECORD || e->seen[n].probe != probe))
		n++;
	assert_true(n < e->n);
	return n;
}

/* Each of these differs from `whoever` in one thing. */
static void a_thread_is_told_again_when_anything_of_it_is_another(void **state)
{
	struct batch_thread other[] = { whoever, whoever, whoever, whoever, whoever, whoever, whoever, whoever, whoever,
					whoever };
	unsigned others = sizeof(other) / sizeof(other[0]);

	(void)state;
	other[0].exe = &shell;
	other[1].exe = NULL;
	other[2].cgroup = &scope;
	other[3].cgroup_id++;
	other[4].pid = other[4].tid;
	other[5].ppid++;
	other[6].uid++;
	other[7].kernel = true;
	memcpy(other[8].comm, "wed", 4);
	other[9].exe = &well;
	for (unsigned i = 0; i < others; i++) {
		struct file file;
		struct engine e;
		unsigned at;

		open_with_context(&file);
		begin_batch(&file, 0, 0);
		put_call_of(&file, &whoever, 0);
		put_call_of(&file, &whoever, 1);
		put_call_of(&file, &other[i], 2);
		put_call_of(&file, &other[i], 3);
		end_batch(&file);
		replay_calls(&e, &file);
		assert_int_equal(count_of(&e, CALL), 4);
		assert_int_equal(count_of(&e, RT_PROBE_THREAD), 2);
		at = next_of(&e, RT_PROBE_THREAD, 0);
		assert_introduced(&e, at, &whoever);
		at = next_of(&e, CALL, next_of(&e, CALL, at) + 1);
		assert_introduced(&e, next_of(&e, RT_PROBE_THREAD, at), &other[i]);
		end(&e);
		remove_file(&file);
	}
}

/* Once on each ring; the same letters are another text as an exe than as a cgroup. */
static void a_text_is_told_once(void **state)
{
	struct batch_thread thread[] = { whoever, whoever, whoever, whoever,
					whoever };
	struct file file;
	struct engine e;
	unsigned at = 0;

	(void)state;
	thread[1].tid = thread[1].pid = 302;
	thread[2].tid = thread[2].pid = 303;
	thread[2].cgroup = &cgroup_web;
	thread[3].tid = thread[3].pid = 304;
	thread[3].exe = &well;
	thread[3].cgroup = &nothing;
	open_with_context(&file);
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		begin_batch(&file, cpu, 0);
		for (unsigned i = 0; i < 4; i++)
			put_call_of(&file, &thread[i], i);
		end_batch(&file);
	}
	replay_calls(&e, &file);
	assert_int_equal(count_of(&e, RT_PROBE_THREAD), 4 * CPUS);
	for (unsigned i = 0; i < 4 * CPUS; i++, at++) {
		at = next_of(&e, RT_PROBE_THREAD, at);
		assert_int_equal(e.seen[at].cpu, i / 4);
		assert_introduced(&e, at, &thread[i % 4]);
	}
	/* web, unit, the cgroup that is called as web is, and well. */
	assert_int_equal(count_of(&e, RT_PROBE_TEXT), 4 * CPUS);
	for (unsigned i = 0; i < e.n; i++)
		if (e.seen[i].probe == RT_PROBE_THREAD) {
			const struct rt_thread *told = (const void *)e.seen[i].payload;

			assert_true(told->exe & RT_TEXT_EXE);
			assert_false(told->cgroup & RT_TEXT_EXE);
		}
	end(&e);
	remove_file(&file);
}

/* The recording itself does not know who it was; an idle CPU's thread is known without a process. */
static void a_tid_without_a_process_stays_unknown(void **state)
{
	const struct batch_thread unknown = { .tid = 9 }, idle = { .comm = "swapper/0", .kernel = true };
	struct file file;
	struct engine e;

	(void)state;
	open_with_context(&file);
	begin_batch(&file, 0, 0);
	put_call_of(&file, &unknown, 0);
	put_call_of(&file, &idle, 1);
	end_batch(&file);
	replay_calls(&e, &file);
	assert_int_equal(count_of(&e, CALL), 2);
	assert_int_equal(nth_of(&e, CALL, 0)->tid, 9);
	assert_int_equal(count_of(&e, RT_PROBE_THREAD), 1);
	assert_introduced(&e, next_of(&e, RT_PROBE_THREAD, 0), &idle);
	end(&e);
	remove_file(&file);
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Events that nobody wants are played, and counted, too. */
static void says_what_it_has_played_and_closes_what_it_opened(void **state)
{
	unsigned descriptors = open_descriptors();
	struct source_stats stats;
	struct ring_handle ring;
	struct error error;
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	put_event(&file, WAKEUP, 0, 1);
	put_event(&file, CALL, 0, 2);
	end_batch(&file);
	start(&e, file.path, true);
	assert_int_equal(source_replay.ring(e.source, CPUS, &ring), -ENOENT);
	assert_int_equal(source_replay.stats(e.source, &stats), 0);
	assert_int_equal(stats.program_runs, 0);
	want(&e, CALL);
	configure(&e);
	drain_at_the_end(&e);
	assert_int_equal(source_replay.stats(e.source, &stats), 0);
	assert_int_equal(stats.program_runs, 3);

	e.request.clauses = RT_FILTER_CLAUSES_MAX;
	assert_int_equal(source_replay.configure(e.source, &e.request, &error), 0);
	e.request.clauses++;
	assert_int_equal(source_replay.configure(e.source, &e.request, &error), -EINVAL);
	assert_string_equal(error.code, "filter-clauses");
	end(&e);
	remove_file(&file);
	assert_int_equal(open_descriptors(), descriptors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_is_told_again_when_anything_of_it_is_another),
		cmocka_unit_test(a_text_is_told_once),
		cmocka_unit_test(a_tid_without_a_process_stays_unknown),
		cmocka_unit_test(says_what_it_has_played_and_closes_what_it_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
