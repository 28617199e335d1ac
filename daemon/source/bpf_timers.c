#include "daemon/source/bpf_timers.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/host/service_manager.h"
#include "daemon/source/bpf_made.h"
#include "daemon/source/syscall_catalog.h"
#include "query/nearest.h"

#define ONLINE_PATH	"/sys/devices/system/cpu/online"
#define RATE_PATH	"/proc/sys/kernel/perf_event_max_sample_rate"
#define TIMER_BIT(slot)	(1u << (slot))

/* ---- Which CPUs there are ------------------------------------------------------------------- */

/* "0-3,5": whether it has `cpu`. A list that cannot be read has every CPU: opening says the rest. */
static bool list_has(const char *list, unsigned cpu)
{
	if (!*list)
		return true;
	while (*list) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (end == list)
			return false;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (cpu >= first && cpu <= last)
			return true;
		list = *end == ',' ? end + 1 : "";
	}
	return false;
}

/* Reads a small file that is held open. "": it says nothing. */
static void read_text(int fd, char *text, size_t bytes)
{
	ssize_t got = fd >= 0 ? pread(fd, text, bytes - 1, 0) : 0;

	text[got > 0 ? got : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

/* ---- One link ------------------------------------------------------------------------------- */

static int open_event(const struct source_bpf_timer *timer, unsigned cpu)
{
	struct perf_event_attr attr = {
		.type = timer->type,
		.size = sizeof(attr),
		.config = timer->config,
		.sample_period = timer->period_ns,
	};
	/* As long as a register: the sandbox compares all of it. */
	const long every_process = -1, no_group = -1;
	long fd = syscall(SYS_perf_event_open, &attr, every_process, (long)cpu, no_group,
			  PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* The link holds the event. */
static int attach_one(struct source_bpf_timers *timers, unsigned slot, unsigned cpu)
{
	struct source_bpf_timer *timer = &timers->timer[slot];
	LIBBPF_OPTS(bpf_link_create_opts, options,
		    .perf_event.bpf_cookie = timer_cookie(timer->attachment, slot));
	char name[ACTIVATION_NAME_BYTES];
	int event = open_event(timer, cpu);

	if (event < 0)
		return event;
	timer->link[cpu] = bpf_link_create(timers->objects->program[PROGRAM_TIMER], event,
					   BPF_PERF_EVENT, &options);
	close(event);
	if (timer->link[cpu] < 0) {
		timer->link[cpu] = -1;
		return -errno;
	}
	if (timers->store)
		timers->store->keep(timers->store->context, source_bpf_name_timer(name, slot, cpu),
				    timer->link[cpu]);
	return 0;
}

static void detach_one(struct source_bpf_timers *timers, unsigned slot, unsigned cpu)
{
	struct source_bpf_timer *timer = &timers->timer[slot];
	char name[ACTIVATION_NAME_BYTES];

	if (timer->link[cpu] < 0)
		return;
	if (timers->store)
		timers->store->drop(timers->store->context, source_bpf_name_timer(name, slot, cpu), -1);
	close(timer->link[cpu]);
	timer->link[cpu] = -1;
}

/* ---- One timer ------------------------------------------------------------------------------ */

static int make_links(struct source_bpf_timer *timer, unsigned cpus)
{
	if (timer->link)
		return 0;
	timer->link = malloc((cpus + 1) * sizeof(*timer->link));
	if (!timer->link)
		return -ENOMEM;
	for (unsigned i = 0; i < cpus; i++)
		timer->link[i] = -1;
	return 0;
}

static void detach_all(struct source_bpf_timers *timers, unsigned slot)
{
	struct source_bpf_timer *timer = &timers->timer[slot];

	for (unsigned i = 0; timer->link && i < timers->objects->cpus; i++)
		detach_one(timers, slot, i);
	timer->attachment = 0;
}

/*
 * On every CPU that is online and has none; off those that went. An interval has one link in all. A
 * CPU that goes offline meanwhile is no failure.
 */
static int attach_all(struct source_bpf_timers *timers, unsigned slot)
{
	struct source_bpf_timer *timer = &timers->timer[slot];
	unsigned links = 0;
	int err = make_links(timer, timers->objects->cpus);

	for (unsigned i = 0; i < timers->objects->cpus && !err; i++) {
		if (!list_has(timers->online, i) || (timer->interval && links)) {
			detach_one(timers, slot, i);
			continue;
		}
		if (timer->link[i] < 0)
			err = attach_one(timers, slot, i);
		links += !err;
		if (err == -ENODEV || err == -ENXIO)
			err = 0;
	}
	return err || links ? err : -ENODEV;
}

/* ---- What is wanted ------------------------------------------------------------------------- */

/* The kernel would throttle it, and so sample less often than the probe's name says. */
static int check_rate(struct source_bpf_timers *timers, const struct source_bpf_timer *timer,
		      struct error *error)
{
	char text[32];
	unsigned long long allowed, rate = NS_PER_S / timer->period_ns;

	read_text(timers->rate_fd, text, sizeof(text));
	allowed = strtoull(text, NULL, 10);
	if (timer->interval || timer->counts || !allowed || rate <= allowed)
		return 0;
	error_set(error, EINVAL, "profile-rate",
		  "%s: the kernel allows %llu samples a second (perf_event_max_sample_rate)",
		  timer->name, allowed);
	error_hint(error, "ask for profile:hz:%llu or less, or raise it: "
		   "sysctl kernel.perf_event_max_sample_rate=%llu", allowed, rate);
	return -EINVAL;
}

static void refuse_clock(const struct source_bpf_timer *timer, int err, struct error *error)
{
	error_set(error, -err, "profile-failed", "%s: cannot open its perf event: %s",
		  timer->name, strerror(-err));
	if (err == -EMFILE)
		error_hint(error, "raise the daemon's limit of open files: LimitNOFILE= of its unit, or"
			   " ulimit -n");
	else if (err == -EACCES)	/* Debian's kernels want CAP_SYS_ADMIN then, and CAP_PERFMON does not do */
		error_hint(error, "if kernel.perf_event_paranoid is above 2, as it is on Debian, lower it:"
			   " sysctl kernel.perf_event_paranoid=2");
	else
		error_hint(error, "the kernel needs CONFIG_PERF_EVENTS, and a container or security module"
			   " must not forbid perf_event_open(2)");
}

/* Most often the counter is what is missing: virtual machines have none of the processor's. */
static void refuse_counter(const struct source_bpf_timer *timer, int err, struct error *error)
{
	if (timer->type != PERF_TYPE_HARDWARE || err == -EMFILE || err == -EACCES || err == -EPERM) {
		refuse_clock(timer, err, error);
		return;
	}
	error_set(error, -err, "no-counter", "%s: the processor has no such counter, or the hypervisor does"
		  " not pass it on: %s", timer->name, strerror(-err));
	error_hint(error, "use what needs no counter: profile:hz:99, software:page-faults:1; or give the"
		   " virtual machine a PMU");
}

/* Those of the table keep theirs. */
static bool is_free(const struct source_bpf_timer *timer, const struct source_bpf_timer wanted[], unsigned n)
{
	if (timer->attachment || (timer->name[0] && timer->probe < RT_PROBE_MADE))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (timer->name[0] && timer->probe == wanted[i].probe)
			return false;
	return true;
}

static struct source_bpf_timer *find_slot(struct source_bpf_timers *timers, uint16_t probe)
{
	for (unsigned slot = 0; slot < RT_TIMERS_MAX; slot++)
		if (timers->timer[slot].name[0] && timers->timer[slot].probe == probe)
			return &timers->timer[slot];
	return NULL;
}

static int refuse_place(const struct source_bpf_timer *timer, struct error *error)
{
	error_set(error, E2BIG, "too-many-timers", "%s: all clients together ask for more than %d different clocks and"
		  " counters", timer->name, RT_TIMERS_MAX);
	error_hint(error, "ask for one that is recorded already, or end a stream that has another");
	return -E2BIG;
}

int source_bpf_timers_place(struct source_bpf_timers *timers, const struct source_bpf_timer wanted[],
			    unsigned n, struct error *error)
{
	for (unsigned i = 0, slot = 0; i < n; i++) {
		struct source_bpf_timer *timer;
		int *link;

		if (find_slot(timers, wanted[i].probe))
			continue;
		while (slot < RT_TIMERS_MAX && !is_free(&timers->timer[slot], wanted, n))
			slot++;
		if (slot == RT_TIMERS_MAX)
			return refuse_place(&wanted[i], error);
		timer = &timers->timer[slot];
		link = timer->link;
		*timer = wanted[i];
		timer->link = link;
	}
	return 0;
}

static int attach_slot(struct source_bpf_timers *timers, unsigned slot, struct error *error)
{
	struct source_bpf_timer *timer = &timers->timer[slot];
	int err, program;

	if (timer->attachment)
		return 0;
	err = check_rate(timers, timer, error);
	if (err)
		return err;
	program = source_bpf_objects_program(timers->objects, PROGRAM_TIMER, timers->store, error);
	if (program < 0)
		return program;
	timer->attachment = ++timers->attachments;
	err = attach_all(timers, slot);
	if (!err)
		return 0;
	detach_all(timers, slot);
	refuse_counter(timer, err, error);
	return err;
}

int source_bpf_timers_attach(struct source_bpf_timers *timers, uint32_t wanted,
			     struct bpf_request *request, struct error *error)
{
	uint32_t added = 0;

	read_text(timers->online_fd, timers->online, sizeof(timers->online));
	for (unsigned slot = 0; slot < RT_TIMERS_MAX; slot++) {
		struct source_bpf_timer *timer = &timers->timer[slot];
		bool was = timer->attachment;
		int err;

		if (!(wanted & TIMER_BIT(slot)))
			continue;
		err = attach_slot(timers, slot, error);
		if (err) {
			for (unsigned i = 0; i < slot; i++)
				if (added & TIMER_BIT(i))
					detach_all(timers, i);
			return err;
		}
		added |= was ? 0 : TIMER_BIT(slot);
		request->timer[slot].period_ns = timer->period_ns;
		request->timer[slot].attachment = timer->attachment;
		request->timer[slot].probe = timer->probe;
		if (timer->interval)
			request->timer[slot].flags |= TIMER_INTERVAL;
		if (timer->counts)
			request->timer[slot].flags |= TIMER_COUNTS;
	}
	return 0;
}

void source_bpf_timers_detach(struct source_bpf_timers *timers, uint32_t wanted)
{
	for (unsigned slot = 0; slot < RT_TIMERS_MAX; slot++)
		if (!(wanted & TIMER_BIT(slot)) && timers->timer[slot].attachment)
			detach_all(timers, slot);
}

bool source_bpf_timers_any(const struct source_bpf_timers *timers)
{
	for (unsigned slot = 0; slot < RT_TIMERS_MAX; slot++)
		if (timers->timer[slot].attachment)
			return true;
	return false;
}

void source_bpf_timers_follow(struct source_bpf_timers *timers)
{
	char online[sizeof(timers->online)];

	read_text(timers->online_fd, online, sizeof(online));
	if (strcmp(online, timers->online) == 0)
		return;
	memcpy(timers->online, online, sizeof(online));
	for (unsigned slot = 0; slot < RT_TIMERS_MAX; slot++)
		if (timers->timer[slot].attachment)
			attach_all(timers, slot);
}

/* ---- From one run to the next --------------------------------------------------------------- */

void source_bpf_timers_adopt(struct source_bpf_timers *timers, const struct bpf_request *request)
{
	char name[ACTIVATION_NAME_BYTES];

	for (unsigned slot = 0; slot < RT_TIMERS_MAX; slot++) {
		struct source_bpf_timer *timer = &timers->timer[slot];
		uint32_t attachment = request->timer[slot].attachment;

		if (attachment > timers->attachments)
			timers->attachments = attachment;
		if (!attachment || request->timer[slot].period_ns != timer->period_ns ||
		    make_links(timer, timers->objects->cpus))
			continue;
		timer->attachment = attachment;
		for (unsigned i = 0; i < timers->objects->cpus; i++)
			timer->link[i] = activation_next(timers->store->kept,
							 source_bpf_name_timer(name, slot, i), NULL);
	}
}

static const struct source_bpf_timer timer_probes[] = {
#define TIMER_PROBE(provider, function, name, period) \
	{provider ":" function ":" name, 0, period, .interval = provider[0] == 'i', \
	 .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK},
#define COUNTER_PROBE(provider, function, period, event_type, event) \
	{provider ":" function ":" #period, 0, period, .counts = true, \
	 .type = PERF_TYPE_##event_type, .config = PERF_COUNT_##event},
#include "daemon/source/timer_probes.def"
#undef COUNTER_PROBE
#undef TIMER_PROBE
};

_Static_assert(sizeof(timer_probes) / sizeof(timer_probes[0]) <= RT_TIMERS_MAX, "a slot for each");

/* Both files are read later, when there is no path any more. */
void source_bpf_timers_init(struct source_bpf_timers *timers, struct source_bpf_objects *objects,
			    struct source_store *store)
{
	*timers = (struct source_bpf_timers){
		.objects = objects,
		.store = store,
		.online_fd = open(ONLINE_PATH, O_RDONLY | O_CLOEXEC),
		.rate_fd = open(RATE_PATH, O_RDONLY | O_CLOEXEC),
	};
	for (unsigned slot = 0; slot < sizeof(timer_probes) / sizeof(timer_probes[0]); slot++) {
		timers->timer[slot] = timer_probes[slot];
		timers->timer[slot].probe = (uint16_t)(RT_PROBE_TIMER + slot);
	}
}

void source_bpf_timers_fini(struct source_bpf_timers *timers)
{
	for (unsigned slot = 0; slot < RT_TIMERS_MAX; slot++) {
		struct source_bpf_timer *timer = &timers->timer[slot];

		for (unsigned i = 0; timer->link && i < timers->objects->cpus; i++)
			if (timer->link[i] >= 0)
				close(timer->link[i]);
		free(timer->link);
	}
	if (timers->online_fd >= 0)
		close(timers->online_fd);
	if (timers->rate_fd >= 0)
		close(timers->rate_fd);
	memset(timers, 0, sizeof(*timers));
	timers->online_fd = timers->rate_fd = -1;
}

/*
 * ---- Made on request ---------------------------------------------------------------------------
 *
 * profile:hz:N, interval:hz:N, interval:ms:N, interval:s:N, software:EVENT:N and hardware:EVENT:N, for any N within
 * bounds. Those of timer_probes.def are in the catalog already, and are not made. In: a spec. Out: a clock, which
 * gets a slot as long as a request wants it.
 */

/* `a_second`: N is how often; else how many units, of ns or of events, lie between two. */
static const struct timer_kind {
	const char *provider, *function;
	bool a_second;
	uint64_t unit, least, most;
	uint32_t type;
	uint64_t config;
} timer_kinds[] = {
#define TIMER_KIND(provider, function, a_second, unit, most) \
	{provider, function, a_second, unit, 1, most, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
#define COUNTER_KIND(provider, function, least, type, config) \
	{provider, function, false, 1, least, COUNTER_PERIOD_MAX, PERF_TYPE_##type, PERF_COUNT_##config},
#include "daemon/source/timer_kinds.def"
#undef COUNTER_KIND
#undef TIMER_KIND
};

#define TIMER_KINDS (sizeof(timer_kinds) / sizeof(timer_kinds[0]))

static const struct timer_kind *find_kind(const char *provider, const char *function)
{
	for (size_t i = 0; i < TIMER_KINDS; i++)
		if (!strcmp(timer_kinds[i].provider, provider) && !strcmp(timer_kinds[i].function, function))
			return &timer_kinds[i];
	return NULL;
}

static int refuse_function(const char *provider, const struct made_spec *spec, struct error *error)
{
	char near[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	error_set(error, ENOENT, "unknown-probe", "no probe matches `%.256s`", spec->text);
	nearest_init(&nearest, spec->function);
	for (size_t i = 0; i < TIMER_KINDS; i++)
		if (!strcmp(timer_kinds[i].provider, provider))
			nearest_offer(&nearest, timer_kinds[i].function);
	if (nearest_text(&nearest, near))
		error_hint(error, "did you mean %s?", near);
	else
		error_hint(error, "`tracectl list '%s:*'` shows some of them", provider);
	return -ENOENT;
}

/* As it is written in a name: digits, and no zero in front. 0: it is none, or out of bounds. */
static uint64_t number_of(const struct timer_kind *kind, const char *text)
{
	uint64_t number = 0;

	if (*text == '0' || strlen(text) > 10 || strspn(text, "0123456789") != strlen(text))
		return 0;
	number = strtoull(text, NULL, 10);
	return number < kind->least || number > kind->most ? 0 : number;
}

static int refuse_number(const struct timer_kind *kind, const struct made_spec *spec, struct error *error)
{
	error_set(error, EINVAL, "timer-out-of-range", "`%.256s`: the last part is no whole number from %llu to %llu",
		  spec->text, (unsigned long long)kind->least, (unsigned long long)kind->most);
	error_hint(error, kind->a_second ? "it says how many events come each second: %s:%s:%llu" :
					   "it says after how many there is an event: %s:%s:%llu",
		   kind->provider, kind->function, (unsigned long long)(kind->least > 99 ? kind->least : 99));
	return -EINVAL;
}

static int add_clock(const struct timer_kind *kind, const struct made_spec *spec, uint64_t number,
		     struct made_sink *sink, struct error *error)
{
	struct source_bpf_timer *timer = calloc(1, sizeof(*timer));
	Ringtail__V1__Probe *message = NULL;

	if (timer)
		message = syscall_catalog_timer(kind->provider, kind->function, spec->name);
	if (!message) {
		free(timer);
		return error_set(error, ENOMEM, "out-of-memory", "no memory for %.256s", spec->text);
	}
	snprintf(timer->name, sizeof(timer->name), "%s:%s:%s", kind->provider, kind->function, spec->name);
	timer->period_ns = kind->a_second ? kind->unit / number : kind->unit * number;
	timer->interval = !strcmp(kind->provider, "interval");
	timer->counts = kind->type != PERF_TYPE_SOFTWARE || kind->config != PERF_COUNT_SW_CPU_CLOCK;
	timer->type = kind->type;
	timer->config = kind->config;
	return sink->add(sink, message, timer);
}

/* A glob names only what is there already; whether it does is said where it is looked up. */
static int make_clock(const char *provider, const struct made_spec *spec, struct made_sink *sink,
		      struct error *error)
{
	const struct timer_kind *kind;
	uint64_t number;

	if (strpbrk(spec->function, "*?[") || strpbrk(spec->name, "*?["))
		return 0;
	if (sink->has(sink, spec->function, spec->name))
		return 0;
	kind = find_kind(provider, spec->function);
	if (!kind)
		return refuse_function(provider, spec, error);
	number = number_of(kind, spec->name);
	return number ? add_clock(kind, spec, number, sink, error) : refuse_number(kind, spec, error);
}

#define KIND(name) \
static int make_##name(void *state, const struct made_spec *spec, struct made_sink *sink, struct error *error) \
{ \
	(void)state; \
	return make_clock(#name, spec, sink, error); \
} \
const struct made_kind made_##name = {.provider = #name, .make = make_##name}

KIND(profile);
KIND(interval);
KIND(software);
KIND(hardware);
