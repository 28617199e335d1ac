/*
 * fuzz_filter: any text as a filter. What compiles must run on every kind of event, and no event
 * that passes may be one that the kernel was told to leave out.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/filter.h"
#include "proto/limits.h"
#include "tests/unit/daemon/small_catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static bool test_holds(uint8_t op, bool equal)
{
	return op == RT_FILTER_ANY || equal == (op == RT_FILTER_EQ);
}

static bool recorded(const struct rt_filter_clause *clause, unsigned clauses,
		     const struct batch_thread *thread)
{
	bool any = clauses == 0;

	for (unsigned i = 0; i < clauses; i++) {
		const struct rt_filter_clause *c = &clause[i];

		any |= test_holds(c->pid_op, c->pid == thread->pid) &&
		       test_holds(c->tid_op, c->tid == thread->tid) &&
		       test_holds(c->uid_op, c->uid == thread->uid) &&
		       test_holds(c->comm_op, !strncmp(c->comm, thread->comm, RT_COMM_BYTES));
	}
	return any;
}

static void check_events(const struct filter *filter)
{
	static const uint64_t words[] = { 5, (uint64_t)-2, 3, 1ull << 40, 9, 0 };
	static const struct batch_thread threads[] = {
		{ .pid = 1, .tid = 1, .uid = 0, .comm = "a" },
		{ .pid = 2, .tid = 1, .uid = 3, .comm = "exactly16bytes!!" },
		{ .pid = 0, .tid = 0, .uid = UINT32_MAX, .kernel = true, .comm = "swapper/0" },
	};
	const Ringtail__V1__Catalog *catalog = small_catalog_get();
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
	unsigned clauses = filter_kernel_clauses(filter, clause, RT_FILTER_CLAUSES_MAX);

	static const char longest[STRING_BYTES_MAX] = "/etc/passwd";	/* cut, as zeros behind it */
	const struct batch_attachment attached[] = {
		{ .kind = RT_ATTACH_STRING, .arg = 1, .text = (const uint8_t *)longest,
		  .text_bytes = sizeof(longest) },
		{ .kind = RT_ATTACH_STRING, .arg = 3, .text = (const uint8_t *)"10.0.0.1:443", .text_bytes = 12 },
	};

	for (size_t p = 0; p < catalog->n_probe; p++) {
		struct batch_event event = {
			.probe = catalog->probe[p]->id,
			.fields = catalog->probe[p]->n_field,
			.time_ns = 1000,
			.field = words,
		};

		for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
			struct filter_texts texts = { attached, p % 3, false };

			if (filter_pass(filter, 1, &event, &threads[t], p % 3 ? &texts : NULL) &&
			    !recorded(clause, clauses, &threads[t]))
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char text[FILTER_BYTES_MAX + 64];
	struct filter *filter;
	struct error error;

	if (n >= sizeof(text))
		n = sizeof(text) - 1;
	memcpy(text, bytes, n);
	text[n] = '\0';
	if (filter_compile(text, small_catalog_get(), &filter, &error)) {
		if (filter || !error.column || error.column > strlen(text) + 1 || !error.what[0])
			abort();
		return 0;
	}
	check_events(filter);
	filter_destroy(filter);
	return 0;
}
