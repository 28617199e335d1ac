/*
 * Probes that come by themselves, as those of a kernel module that is loaded: the loader process passes them, and the
 * engine has them in its catalog, without a question; a number that is not such a probe's it does not take.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/source/loader.h"

#define WAIT_MS		60000
#define BATCHES		3	/* of probes that come */

struct source {
	Ringtail__V1__Catalog catalog;
	int watch;			/* each of its counts is a batch */
	unsigned looked;
};

static int fake_open(const struct source_config *config, struct source **source, struct error *error)
{
	(void)config;
	*source = calloc(1, sizeof(**source));
	if (!*source)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	ringtail__v1__catalog__init(&(*source)->catalog);
	(*source)->watch = eventfd(BATCHES, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
	return 0;
}

static const Ringtail__V1__Catalog *fake_catalog(struct source *source)
{
	return &source->catalog;
}

static int fake_ring(struct source *source, unsigned i, struct ring_handle *ring)
{
	(void)source, (void)i, (void)ring;
	return -ENOENT;
}

static int fake_configure(struct source *source, const struct source_request *request, struct error *error)
{
	(void)source, (void)request, (void)error;
	return 0;
}

static int fake_stats(struct source *source, struct source_stats *stats)
{
	(void)source;
	*stats = (struct source_stats){.program_runs = 7};
	return -EIO;		/* and a part is missing */
}

static int fake_attention(struct source *source, int *timeout_ms)
{
	*timeout_ms = -1;
	return source->watch;
}

static void fake_attend(struct source *source)
{
	uint64_t one;

	if (read(source->watch, &one, sizeof(one)) == sizeof(one))
		source->looked++;
}

static int offer_one(source_offer *offer, void *context, uint32_t id, const char *name)
{
	Ringtail__V1__Probe probe = RINGTAIL__V1__PROBE__INIT;

	probe.id = id;
	probe.provider = (char *)"driver";
	probe.function = (char *)name;
	probe.name = (char *)"event";
	return offer(context, &probe);
}

/* Two; then nothing; then one whose number is a program's, one whose number is taken, and a good one. */
static int fake_arrived(struct source *source, source_offer *offer, void *context)
{
	int err = 0;

	if (source->looked == 1) {
		err = offer_one(offer, context, RT_PROBE_MADE, "first");
		err = err ? err : offer_one(offer, context, RT_PROBE_MADE + 1, "second");
	} else if (source->looked == BATCHES) {
		err = offer_one(offer, context, RT_PROBE_PROGRAM, "program");
		err = err ? err : offer_one(offer, context, RT_PROBE_MADE, "again");
		err = err ? err : offer_one(offer, context, RT_PROBE_MADE + 2, "third");
	}
	return err;
}

static void fake_close(struct source *source)
{
	close(source->watch);
	free(source);
}

static const struct source_ops fake = {
	.name = "none", .open = fake_open, .catalog = fake_catalog, .ring = fake_ring, .configure = fake_configure,
	.stats = fake_stats, .attention = fake_attention, .attend = fake_attend, .arrived = fake_arrived,
	.close = fake_close,
};

/* In the place of those that there are. */
const struct source_ops *__wrap_source_by_name(const char *name);

const struct source_ops *__wrap_source_by_name(const char *name)
{
	(void)name;
	return &fake;
}

static char told[256];

static void tell(void *context, const Ringtail__V1__Probe *probe)
{
	(void)context;
	strcat(strcat(told, probe->function), " ");
}

static void test_probes_arrive(void **state)
{
	struct source_config config = {.ring_bytes = 1 << 16, .policy = RT_POLICY_DROP};
	struct loader_report report;
	struct loader *loader;
	struct error error;

	(void)state;
	if (loader_start("fake", &config, false, NULL, &loader, &error) != 0)
		fail_msg("%s", error.what);
	loader_on_made(loader, tell, NULL);
	/* They are no report; an answer is. */
	while (!strstr(told, "third")) {
		struct pollfd wait = {.fd = loader_fd(loader), .events = POLLIN};

		assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
		assert_int_equal(loader_receive(loader, &report), -EAGAIN);
	}
	assert_string_equal(told, "first second third ");
	assert_int_equal(loader_catalog(loader)->n_probe, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(loader_catalog(loader)->probe[i]->id, RT_PROBE_MADE + i);
	assert_int_equal(loader_ask_stats(loader), 0);
	while (loader_receive(loader, &report) != 0) {
		struct pollfd wait = {.fd = loader_fd(loader), .events = POLLIN};

		assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
	}
	assert_int_equal(report.event, LOADER_STATS);
	assert_int_equal(report.stats.program_runs, 7);
	assert_int_equal(report.err, -EIO);
	loader_stop(loader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probes_arrive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
