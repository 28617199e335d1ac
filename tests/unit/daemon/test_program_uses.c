/*
 * program_uses: what lists say of the processes that have a program's probe: how many, in how many it is enabled, and
 * who they are, where that may be told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/serve/program_uses.h"
#include "tests/lib/failing_memory.h"

#define FIRST		RT_PROBE_PROGRAM
#define LAST		(RT_PROBE_MAX - 1)
#define PROCESSES_MAX	(4 * LIST_PROCESSES_MAX)

/* ---- Programs --------------------------------------------------------------------------------- */

/* Which processes there are, and which probe each of them has. */
static struct {
	uint16_t id[PROCESSES_MAX];
	struct programs_process process[PROCESSES_MAX];
	unsigned processes;
} now;

static const struct programs *const programs = (const struct programs *)&now;

void __wrap_programs_each(const struct programs *of, programs_each_probe *each, void *context);
void __wrap_programs_each(const struct programs *of, programs_each_probe *each, void *context)
{
	assert_ptr_equal(of, programs);
	for (unsigned i = 0; i < now.processes; i++)
		each(context, now.id[i], &now.process[i]);
}

const char *__wrap_programs_source(const struct programs *of, uint32_t id);
const char *__wrap_programs_source(const struct programs *of, uint32_t id)
{
	assert_ptr_equal(of, programs);
	return id == FIRST ? "first.c:1" : id == FIRST + 1 ? "second.c:2" : id == LAST ? "last.c:3" : NULL;
}

/* Of a process of its own: 100 and so on, of user 1000 and so on. */
static void has(uint16_t id, bool enabled)
{
	struct programs_process *process = &now.process[now.processes];

	process->pid = 100 + now.processes;
	process->uid = 1000 + now.processes;
	process->enabled = enabled;
	snprintf(process->comm, sizeof(process->comm), "program-%u", now.processes);
	now.id[now.processes++] = id;
}

/* The first probe has three processes, in one of which it is enabled; the last one has one; the second none. */
static int begin(void **state)
{
	(void)state;
	memset(&now, 0, sizeof(now));
	has(FIRST, false);
	has(FIRST, true);
	has(LAST, true);
	has(FIRST, false);
	return 0;
}

static struct program_uses *create(bool names_processes, bool hides_comm)
{
	const struct program_uses_config config = {.programs = programs, .names_processes = names_processes,
						    .hides_comm = hides_comm};
	struct program_uses *uses = program_uses_create(&config);

	assert_non_null(uses);
	return uses;
}

static Ringtail__V1__Probe probe_of(const struct program_uses *uses, uint32_t id)
{
	Ringtail__V1__Probe probe = RINGTAIL__V1__PROBE__INIT;

	probe.id = id;
	probe.source = "as it was";
	program_uses_add(uses, &probe);
	return probe;
}

static void check_counts(const Ringtail__V1__Probe *probe, unsigned processes, unsigned enabled, unsigned named)
{
	assert_non_null(probe->use);
	assert_int_equal(probe->use->processes, processes);
	assert_int_equal(probe->use->enabled, enabled);
	assert_int_equal(probe->use->n_process, named);
}

static void check_process(const Ringtail__V1__ProgramProcess *process, unsigned number, const char *comm, bool enabled)
{
	assert_int_equal(process->pid, 100 + number);
	assert_int_equal(process->uid, 1000 + number);
	assert_string_equal(process->comm, comm);
	assert_int_equal(process->enabled, enabled);
}

/* ---- Who -------------------------------------------------------------------------------------- */

static void each_process_is_named(void **state)
{
	struct program_uses *uses = create(true, false);
	Ringtail__V1__Probe first = probe_of(uses, FIRST), last = probe_of(uses, LAST);

	(void)state;
	check_counts(&first, 3, 1, 3);
	assert_string_equal(first.source, "first.c:1");
	check_process(first.use->process[0], 0, "program-0", false);
	check_process(first.use->process[1], 1, "program-1", true);
	check_process(first.use->process[2], 3, "program-3", false);
	check_counts(&last, 1, 1, 1);
	assert_string_equal(last.source, "last.c:3");
	check_process(last.use->process[0], 2, "program-2", true);
	program_uses_free(uses);
}

/* Where commands are hidden, their numbers are told, and not a part of their names. */
static void hidden_names_are_empty(void **state)
{
	struct program_uses *uses = create(true, true);
	Ringtail__V1__Probe first = probe_of(uses, FIRST);

	(void)state;
	check_counts(&first, 3, 1, 3);
	check_process(first.use->process[1], 1, "", true);
	program_uses_free(uses);
}

/* A user who may not know others' knows its own. */
static void a_users_own_processes_are_named(void **state)
{
	const struct program_uses_config config = {.programs = programs, .owner = 1001};
	struct program_uses *uses = program_uses_create(&config);
	Ringtail__V1__Probe first, last;

	(void)state;
	assert_non_null(uses);
	first = probe_of(uses, FIRST);
	last = probe_of(uses, LAST);
	check_counts(&first, 3, 1, 1);
	check_process(first.use->process[0], 1, "program-1", true);
	check_counts(&last, 1, 1, 0);
	program_uses_free(uses);
}

static void without_names_they_are_counted(void **state)
{
	struct program_uses *uses = create(false, false);
	Ringtail__V1__Probe first = probe_of(uses, FIRST), last = probe_of(uses, LAST);

	(void)state;
	check_counts(&first, 3, 1, 0);
	check_counts(&last, 1, 1, 0);
	program_uses_free(uses);
}

static void the_message_can_be_sent(void **state)
{
	struct program_uses *uses = create(true, false);
	Ringtail__V1__Probe first = probe_of(uses, FIRST), *read;
	uint8_t bytes[1024];
	size_t packed;

	(void)state;
	first.source = NULL;
	assert_in_range(ringtail__v1__probe__get_packed_size(&first), 1, sizeof(bytes));
	packed = ringtail__v1__probe__pack(&first, bytes);
	program_uses_free(uses);
	read = ringtail__v1__probe__unpack(NULL, packed, bytes);
	assert_non_null(read);
	check_counts(read, 3, 1, 3);
	check_process(read->use->process[2], 3, "program-3", false);
	ringtail__v1__probe__free_unpacked(read, NULL);
}

/* ---- Which probes ----------------------------------------------------------------------------- */

/* All processes that had it have ended. */
static void a_probe_of_none_has_none(void **state)
{
	struct program_uses *uses = create(true, false);
	Ringtail__V1__Probe second = probe_of(uses, FIRST + 1);

	(void)state;
	check_counts(&second, 0, 0, 0);
	assert_string_equal(second.source, "second.c:2");
	program_uses_free(uses);
}

static void what_is_no_program_s_stays_as_it_is(void **state)
{
	struct program_uses *uses = create(true, false);
	Ringtail__V1__Probe other = probe_of(uses, 7);

	(void)state;
	assert_null(other.use);
	assert_string_equal(other.source, "as it was");
	program_uses_free(uses);
}

static void without_programs_all_stay_as_they_are(void **state)
{
	const struct program_uses_config config = {.names_processes = true};
	struct program_uses *uses = program_uses_create(&config);
	Ringtail__V1__Probe first;

	(void)state;
	assert_non_null(uses);
	first = probe_of(uses, FIRST);
	assert_null(first.use);
	assert_string_equal(first.source, "as it was");
	program_uses_free(uses);
}

/* ---- Bounds ----------------------------------------------------------------------------------- */

/* The others are counted; a list that is full takes no name from another one. */
static void so_many_are_named(void **state)
{
	struct program_uses *uses;
	Ringtail__V1__Probe first, last;

	(void)state;
	while (now.processes < 2 * LIST_PROCESSES_MAX)
		has(FIRST, true);
	has(LAST, false);
	uses = create(true, false);
	first = probe_of(uses, FIRST);
	check_counts(&first, 2 * LIST_PROCESSES_MAX - 1, 2 * LIST_PROCESSES_MAX - 3, LIST_PROCESSES_MAX);
	check_process(first.use->process[LIST_PROCESSES_MAX - 1], LIST_PROCESSES_MAX,
		      now.process[LIST_PROCESSES_MAX].comm, true);
	last = probe_of(uses, LAST);
	check_counts(&last, 2, 1, 2);
	check_process(last.use->process[1], 2 * LIST_PROCESSES_MAX, now.process[2 * LIST_PROCESSES_MAX].comm, false);
	program_uses_free(uses);
}

static void no_memory(void **state)
{
	const struct program_uses_config config = {.programs = programs, .names_processes = true};

	(void)state;
	failures_left = 1;
	assert_null(program_uses_create(&config));
	failures_left = 0;
	program_uses_free(NULL);
}

int main(void)
{
#define TEST(name)	cmocka_unit_test_setup(name, begin)
	const struct CMUnitTest tests[] = {
		TEST(each_process_is_named),
		TEST(hidden_names_are_empty),
		TEST(a_users_own_processes_are_named),
		TEST(without_names_they_are_counted),
		TEST(the_message_can_be_sent),
		TEST(a_probe_of_none_has_none),
		TEST(what_is_no_program_s_stays_as_it_is),
		TEST(without_programs_all_stay_as_they_are),
		TEST(so_many_are_named),
		TEST(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
