/*
 * The LTTng-UST event that stands in for a system call: LTTng's kernel tracer is a module, which a
 * machine without loadable modules cannot have. Four words, as many as a call record carries on
 * average (two arguments, result, duration), so that both sides move the same information.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/lttng_ust_call.h"

#if !defined(LTTNG_UST_CALL_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_UST_CALL_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	bench, call,
	LTTNG_UST_TP_ARGS(long, a, long, b, long, ret, unsigned long, duration_ns),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(long, a, a)
		lttng_ust_field_integer(long, b, b)
		lttng_ust_field_integer(long, ret, ret)
		lttng_ust_field_integer(unsigned long, duration_ns, duration_ns)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(
	bench, text,
	LTTNG_UST_TP_ARGS(const char *, text),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text))
)

#endif

#include <lttng/tracepoint-event.h>
