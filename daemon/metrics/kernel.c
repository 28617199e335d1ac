#include "daemon/metrics/kernel.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/visible.h"

#define OTHER "other"			/* no system call and no errno is called that, */
#define OTHER_COMMS "(all other names)"	/* but a process may be: it cannot have so long a name */
#define COMM_TEXT_BYTES (4 * RT_COMM_BYTES + 1)

struct metric_kernel {
	struct metric_kernel_config config;
	uint32_t calls, pairs;			/* that have a series */
	bool has_call[RT_SYSCALLS_MAX];
	bool has_pair[RT_SYSCALLS_MAX][METER_ERRNOS];
	bool seen[RT_SYSCALLS_MAX];		/* in this snapshot: sum[] is set */
	struct meter_call_sum sum[RT_SYSCALLS_MAX];
	struct metric_exemplar exemplar[METER_BUCKETS];
	struct metric_cell cell[METER_CELLS];
};

struct metric_kernel *metric_kernel_create(const struct metric_kernel_config *config)
{
	struct metric_kernel *kernel = calloc(1, sizeof(*kernel));

	if (kernel)
		kernel->config = *config;
	return kernel;
}

void metric_kernel_destroy(struct metric_kernel *kernel)
{
	free(kernel);
}

static struct metric_label call_label(const struct metric_kernel *kernel, uint32_t number)
{
	const char *name = meters_call_name(kernel->config.meters, number);

	return (struct metric_label){.name = "syscall", .value = name ? name : OTHER};
}

static const char *errno_text(uint32_t index, char text[24])
{
	static const char *const restart[] = {
		"ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "ENOIOCTLCMD",
		"ERESTART_RESTARTBLOCK",
	};
	const char *name;

	if (index >= METER_ERRNO_OTHER)
		return OTHER;
	if (index >= METER_ERRNO_RESTART)
		return restart[index - METER_ERRNO_RESTART];
	name = strerrorname_np((int)index);
	if (name)
		return name;
	snprintf(text, 24, "%u", index);
	return text;
}

/* ---- Which have a series of their own -------------------------------------------------------- */

static void read_calls(struct metric_kernel *kernel)
{
	for (uint32_t i = 0; i < RT_SYSCALLS_MAX; i++) {
		kernel->seen[i] = meters_read_call(kernel->config.meters, i, &kernel->sum[i]);
		if (kernel->seen[i] && !kernel->has_call[i] &&
		    meters_call_name(kernel->config.meters, i) &&
		    kernel->calls < kernel->config.series_max) {
			kernel->has_call[i] = true;
			kernel->calls++;
		}
	}
}

static bool pair_has_series(struct metric_kernel *kernel, uint32_t number, uint32_t error)
{
	if (!kernel->has_call[number])
		return false;
	if (!kernel->has_pair[number][error] && kernel->pairs < kernel->config.series_max) {
		kernel->has_pair[number][error] = true;
		kernel->pairs++;
	}
	return kernel->has_pair[number][error];
}

static void add_sum(struct meter_sum *to, const struct meter_sum *from)
{
	for (unsigned i = 0; i < METER_CELLS; i++)
		to->cell[i] += from->cell[i];
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
	to->count += from->count;
	to->sum_ns += from->sum_ns;
}

/* ---- Families -------------------------------------------------------------------------------- */

/* Its cells are the kernel's until the next. */
static struct metric_histogram histogram_of(struct metric_kernel *kernel,
					    const struct meter_sum *sum)
{
	struct metric_histogram histogram = {
		.count = sum->count,
		.sum_seconds = (double)sum->sum_ns / 1e9,
		.cell = kernel->cell,
	};

	for (uint32_t i = 0; i < METER_CELLS; i++)
		if (sum->cell[i])
			kernel->cell[histogram.cells++] =
				(struct metric_cell){i, sum->cell[i]};
	memcpy(histogram.bucket, sum->bucket, sizeof(histogram.bucket));
	return histogram;
}

static void add_exemplars(struct metric_kernel *kernel, struct metric_histogram *histogram,
			  uint32_t number, uint64_t realtime_less_monotonic_ns)
{
	for (unsigned i = 0; i < METER_BUCKETS; i++) {
		struct metric_exemplar *exemplar = &kernel->exemplar[i];
		struct meter_slow_call slow;
		struct trace_place place;

		if (!histogram->bucket[i] ||
		    !meters_read_slow(kernel->config.meters, number, i, &slow))
			continue;
		place = (struct trace_place){
			.boot_id = kernel->config.boot_id,
			.epoch = kernel->config.epoch,
			.cpu = slow.cpu,
			.seq = slow.seq,
		};
		trace_id_make(&place, exemplar->trace_id);
		exemplar->seconds = (double)slow.duration_ns / 1e9;
		exemplar->realtime_ns = slow.time_ns + realtime_less_monotonic_ns;
		histogram->exemplar[i] = exemplar;
	}
}

static void add_durations(struct metric_kernel *kernel, struct metric_builder *builder,
			  uint64_t realtime_less_monotonic_ns)
{
	const struct metric_label other = {.name = "syscall", .value = OTHER};
	struct meter_sum rest = {0};
	struct metric_histogram histogram;

	metric_begin(builder, METRIC_HISTOGRAM, "ringtail_syscall_duration_seconds", "seconds",
		     "How long system calls took that returned");
	for (uint32_t i = 0; i < RT_SYSCALLS_MAX; i++) {
		struct metric_label label = call_label(kernel, i);

		if (!kernel->seen[i])
			continue;
		if (!kernel->has_call[i]) {
			add_sum(&rest, &kernel->sum[i].duration);
			continue;
		}
		histogram = histogram_of(kernel, &kernel->sum[i].duration);
		add_exemplars(kernel, &histogram, i, realtime_less_monotonic_ns);
		metric_add_histogram(builder, &histogram, &label, 1);
	}
	if (rest.count) {
		histogram = histogram_of(kernel, &rest);
		metric_add_histogram(builder, &histogram, &other, 1);
	}
}

static void add_calls(struct metric_kernel *kernel, struct metric_builder *builder)
{
	const struct metric_label other = {.name = "syscall", .value = OTHER};
	uint64_t rest = 0;

	metric_begin(builder, METRIC_COUNTER, "ringtail_syscalls_total", "",
		     "System calls, those that never return among them");
	for (uint32_t i = 0; i < RT_SYSCALLS_MAX; i++) {
		struct metric_label label = call_label(kernel, i);
		uint64_t calls = kernel->sum[i].duration.count + kernel->sum[i].never;

		if (kernel->has_call[i])
			metric_add(builder, (double)calls, &label, 1);
		else if (kernel->seen[i])
			rest += calls;
	}
	if (rest)
		metric_add(builder, (double)rest, &other, 1);
}

static void add_errors_of(struct metric_kernel *kernel, struct metric_builder *builder,
			  uint32_t number)
{
	struct metric_label label[2] = {call_label(kernel, number), {.name = "errno"}};
	uint64_t rest = 0;

	for (uint32_t i = 0; i < METER_ERRNOS; i++) {
		uint64_t errors = kernel->sum[number].error[i];
		char text[24];

		if (!errors)
			continue;
		if (i == METER_ERRNO_OTHER || !pair_has_series(kernel, number, i)) {
			rest += errors;
			continue;
		}
		label[1].value = errno_text(i, text);
		metric_add(builder, (double)errors, label, 2);
	}
	label[1].value = OTHER;
	if (rest)
		metric_add(builder, (double)rest, label, 2);
}

static void add_errors(struct metric_kernel *kernel, struct metric_builder *builder)
{
	const struct metric_label other[2] = {{.name = "syscall", .value = OTHER},
					      {.name = "errno", .value = OTHER}};
	uint64_t rest = 0;

	metric_begin(builder, METRIC_COUNTER, "ringtail_syscall_errors_total", "",
		     "System calls that failed, by errno");
	for (uint32_t i = 0; i < RT_SYSCALLS_MAX; i++) {
		if (kernel->has_call[i])
			add_errors_of(kernel, builder, i);
		else if (kernel->seen[i])
			rest += kernel->sum[i].errors;
	}
	if (rest)
		metric_add(builder, (double)rest, other, 2);
}

static void add_sched(struct metric_kernel *kernel, struct metric_builder *builder)
{
	struct metric_histogram histogram;
	struct meter_sum sum;

	metric_begin(builder, METRIC_HISTOGRAM, "ringtail_sched_latency_seconds", "seconds",
		     "How long threads waited for a CPU after they were woken");
	meters_read_latency(kernel->config.meters, &sum);
	histogram = histogram_of(kernel, &sum);
	metric_add_histogram(builder, &histogram, NULL, 0);
	metric_begin(builder, METRIC_HISTOGRAM, "ringtail_offcpu_seconds", "seconds",
		     "How long threads were off the CPU, by why they left it");
	for (unsigned i = 0; i < OFF_REASONS; i++) {
		struct metric_label label = {.name = "reason", .value = off_reason_name(i)};

		meters_read_off_cpu(kernel->config.meters, i, &sum);
		histogram = histogram_of(kernel, &sum);
		metric_add_histogram(builder, &histogram, &label, 1);
	}
}

static void add_counts(struct metric_kernel *kernel, struct metric_builder *builder)
{
	static const struct {
		const char *name, *help;
	} row[METER_COUNTS] = {
		[METER_SWITCHES] = {"ringtail_context_switches_total",
				    "Times a CPU went from one thread to another"},
		[METER_WAKEUPS] = {"ringtail_wakeups_total", "Times a thread was woken"},
		[METER_FORKS] = {"ringtail_forks_total", "Threads and processes begun"},
		[METER_EXECS] = {"ringtail_execs_total", "Programs started"},
		[METER_EXITS] = {"ringtail_exits_total", "Threads and processes ended"},
	};

	for (unsigned i = 0; i < METER_COUNTS; i++) {
		metric_begin(builder, METRIC_COUNTER, row[i].name, "", row[i].help);
		metric_add(builder, (double)meters_read_count(kernel->config.meters, i), NULL, 0);
	}
}

static_assert(sizeof(OTHER_COMMS) - 1 > RT_COMM_BYTES, "no thread has this name");

/*
 * A name of a program is any bytes, a label is UTF-8: what is not plain text is shown byte by byte. Only
 * such a name has a backslash, so that two names stay two.
 */
static void comm_text(const struct meter_comm_sum *comm, char text[COMM_TEXT_BYTES])
{
	size_t at = 0;
	bool plain = visible_is_all(comm->comm) && !strchr(comm->comm, '\\');

	if (!*comm->comm || plain) {
		strcpy(text, *comm->comm ? comm->comm : OTHER_COMMS);
		return;
	}
	for (const char *c = comm->comm; *c; c++)
		at += (size_t)snprintf(text + at, COMM_TEXT_BYTES - at, "\\x%02x",
				       (unsigned char)*c);
}

static void add_comms(struct metric_kernel *kernel, struct metric_builder *builder)
{
	struct meter_comm_sum comm[METER_COMMS_MAX + 1];
	uint32_t comms = meters_read_comms(kernel->config.meters, comm);

	for (unsigned which = 0; which < 2; which++) {
		if (which == 0)
			metric_begin(builder, METRIC_COUNTER, "ringtail_comm_syscalls_total", "",
				     "System calls by name of program");
		else
			metric_begin(builder, METRIC_COUNTER, "ringtail_comm_cpu_seconds_total",
				     "seconds", "CPU time by name of program");
		for (uint32_t i = 0; i < comms; i++) {
			char text[COMM_TEXT_BYTES];
			struct metric_label label = {.name = "comm", .value = text};

			comm_text(&comm[i], text);
			metric_add(builder, which ? (double)comm[i].cpu_ns / 1e9
						  : (double)comm[i].calls, &label, 1);
		}
	}
}

void metric_kernel_add(struct metric_kernel *kernel, struct metric_builder *builder,
		       uint64_t realtime_less_monotonic_ns)
{
	read_calls(kernel);
	add_calls(kernel, builder);
	add_durations(kernel, builder, realtime_less_monotonic_ns);
	add_errors(kernel, builder);
	add_sched(kernel, builder);
	add_counts(kernel, builder);
	if (kernel->config.comm)
		add_comms(kernel, builder);
}
