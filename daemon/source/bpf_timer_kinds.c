/*
 * made_timer: profile:hz:N, interval:hz:N, interval:ms:N, interval:s:N, software:EVENT:N and hardware:EVENT:N, for
 * any N within bounds. Those of timer_probes.def are in the catalog already, and are not made.
 *
 * In: a spec. Out: a clock, which bpf_timers.c gives a slot as long as a request wants it. The loader's one thread.
 */
#include "daemon/source/bpf_made.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/source/bpf_timers.h"
#include "daemon/source/syscall_catalog.h"
#include "query/nearest.h"

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

static const struct timer_kind *find(const char *provider, const char *function)
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

static int add(const struct timer_kind *kind, const struct made_spec *spec, uint64_t number,
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
static int make(const char *provider, const struct made_spec *spec, struct made_sink *sink,
		struct error *error)
{
	const struct timer_kind *kind;
	uint64_t number;

	if (strpbrk(spec->function, "*?[") || strpbrk(spec->name, "*?["))
		return 0;
	if (sink->has(sink, spec->function, spec->name))
		return 0;
	kind = find(provider, spec->function);
	if (!kind)
		return refuse_function(provider, spec, error);
	number = number_of(kind, spec->name);
	return number ? add(kind, spec, number, sink, error) : refuse_number(kind, spec, error);
}

#define KIND(name) \
static int make_##name(void *state, const struct made_spec *spec, struct made_sink *sink, struct error *error) \
{ \
	(void)state; \
	return make(#name, spec, sink, error); \
} \
const struct made_kind made_##name = {.provider = #name, .make = make_##name}

KIND(profile);
KIND(interval);
KIND(software);
KIND(hardware);
