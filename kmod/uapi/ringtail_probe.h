/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * ringtail_probe.h: tracepoints of a kernel module, as ringtail-probe.h gives them to a program. Header only; Linux 6.1
 * or later; modules that may use what is GPL only.
 *
 *	#define RT_CREATE_PROBES		in one file of the module
 *	#include "ringtail_probe.h"
 *	RT_PROBE(app, request_done, "id %u took %u us, %s", id, us, name);
 *
 * In: what the module passes. Out: records in the rings of ringtail.ko. In any context that a tracepoint of the kernel
 * may be in. The module takes nothing of ringtail.ko, which may be loaded before it, after it or never, and be removed
 * meanwhile: it finds the probes by itself, and lets go of them when the module is unloaded.
 *
 * As long as nobody asks for a probe of the module, each costs one instruction that does nothing (a static key). While
 * somebody asks for another one of it, a load and a branch more. The arguments of a probe that nobody asks for are not
 * evaluated. docs/kmod.md has the rest.
 */
#ifndef RINGTAIL_UAPI_PROBE_H
#define RINGTAIL_UAPI_PROBE_H

#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/tracepoint.h>
#include <linux/types.h>

/* ---- What the module and ringtail.ko agree on ---------------------------------------------------- */

#define RT_PROBE_SITE_VERSION	1
#define RT_PROBE_PARAM		"ringtail_probe"	/* of the parameters that stand for probes */
#define RT_PROBE_TRACEPOINT	"ringtail_probe"	/* of the one tracepoint that a module has */
#define RT_PROBE_ARGS_MAX	10
#define RT_PROBE_TEXT_MAX	128	/* bytes of one text; what is longer is cut */
#define RT_PROBE_PROVIDER_BYTES	16	/* with the zero */
#define RT_PROBE_NAME_BYTES	40
#define RT_PROBE_FORMAT_BYTES	256

/* A type is a kind and the bytes of a value: 0x42 is int, 0x84 a text. */
enum rt_probe_kind {
	RT_PROBE_UNSIGNED	= 1,
	RT_PROBE_SIGNED		= 2,
	RT_PROBE_POINTER	= 3,
	RT_PROBE_TEXT_KIND	= 4,
};

#define rt_probe_type(kind, bytes)	((bytes) << 4 | (kind))
#define rt_probe_type_kind(type)	((type) & 15)
#define rt_probe_type_bytes(type)	((type) >> 4)

/*
 * One RT_PROBE. ringtail.ko finds it as what a parameter without permissions points to, since the kernel keeps a
 * module's parameters where others find them.
 */
struct rt_probe_site {
	u32 version;			/* RT_PROBE_SITE_VERSION */
	u32 wanted;			/* ringtail.ko writes: whether anybody asks for it */
	u32 id;				/* ringtail.ko writes: its number; 0: none */
	u32 line;
	u32 arguments;
	const char *provider, *name, *format, *file;
	const u8 *type;
	const char *const *written;	/* the arguments, as they are in the source */
};

/* ---- The module's side --------------------------------------------------------------------------- */

/* Never called: the compiler holds the arguments against the format. */
static inline __printf(1, 2) void rt_probe_check(const char *format, ...)
{
}

#if defined(MODULE) && defined(CONFIG_TRACEPOINTS)

/* With these names since 6.16, where DECLARE_TRACE() adds to them. */
#ifdef DECLARE_TRACE_EVENT
DECLARE_TRACE_EVENT(ringtail_probe, TP_PROTO(struct rt_probe_site *site, const u64 *value), TP_ARGS(site, value));
#else
DECLARE_TRACE(ringtail_probe, TP_PROTO(struct rt_probe_site *site, const u64 *value), TP_ARGS(site, value));
#endif

#ifdef RT_CREATE_PROBES
DEFINE_TRACE(ringtail_probe, TP_PROTO(struct rt_probe_site *site, const u64 *value), TP_ARGS(site, value));
#endif

/* It is no parameter that anybody could set. */
static inline int rt_probe_set(const char *value, const struct kernel_param *param)
{
	return -EINVAL;
}

static const struct kernel_param_ops rt_probe_param __maybe_unused = {.set = rt_probe_set};

static inline u64 rt_value_unsigned(unsigned long long value) { return value; }
static inline u64 rt_value_signed(long long value) { return (u64)value; }
static inline u64 rt_value_pointer(const volatile void *value) { return (unsigned long)value; }

#define RT_CHAR_KIND	((char)-1 < 0 ? RT_PROBE_SIGNED : RT_PROBE_UNSIGNED)
#define RT_TYPE_OF(x)	_Generic((x), \
	_Bool: rt_probe_type(RT_PROBE_UNSIGNED, 1), \
	char: rt_probe_type(RT_CHAR_KIND, 1), \
	signed char: rt_probe_type(RT_PROBE_SIGNED, 1), \
	unsigned char: rt_probe_type(RT_PROBE_UNSIGNED, 1), \
	short: rt_probe_type(RT_PROBE_SIGNED, 2), \
	unsigned short: rt_probe_type(RT_PROBE_UNSIGNED, 2), \
	int: rt_probe_type(RT_PROBE_SIGNED, 4), \
	unsigned int: rt_probe_type(RT_PROBE_UNSIGNED, 4), \
	long: rt_probe_type(RT_PROBE_SIGNED, sizeof(long)), \
	unsigned long: rt_probe_type(RT_PROBE_UNSIGNED, sizeof(long)), \
	long long: rt_probe_type(RT_PROBE_SIGNED, 8), \
	unsigned long long: rt_probe_type(RT_PROBE_UNSIGNED, 8), \
	char *: rt_probe_type(RT_PROBE_TEXT_KIND, sizeof(char *)), \
	const char *: rt_probe_type(RT_PROBE_TEXT_KIND, sizeof(char *)), \
	default: rt_probe_type(RT_PROBE_POINTER, sizeof(void *)))
#define RT_VALUE_OF(x)	_Generic((x), \
	_Bool: rt_value_unsigned, unsigned char: rt_value_unsigned, unsigned short: rt_value_unsigned, \
	unsigned int: rt_value_unsigned, unsigned long: rt_value_unsigned, unsigned long long: rt_value_unsigned, \
	char: rt_value_signed, signed char: rt_value_signed, short: rt_value_signed, int: rt_value_signed, \
	long: rt_value_signed, long long: rt_value_signed, default: rt_value_pointer)(x)
#define RT_TEXT_OF(x)	#x

/* m(a), for each argument behind the format. */
#define RT_COUNT_(f, a, b, c, d, e, g, h, i, j, k, n, ...)	n
#define RT_COUNT(...)	RT_COUNT_(__VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)
#define RT_EACH_0(m, f)
#define RT_EACH_1(m, f, a)	m(a),
#define RT_EACH_2(m, f, a, ...)	m(a), RT_EACH_1(m, f, __VA_ARGS__)
#define RT_EACH_3(m, f, a, ...)	m(a), RT_EACH_2(m, f, __VA_ARGS__)
#define RT_EACH_4(m, f, a, ...)	m(a), RT_EACH_3(m, f, __VA_ARGS__)
#define RT_EACH_5(m, f, a, ...)	m(a), RT_EACH_4(m, f, __VA_ARGS__)
#define RT_EACH_6(m, f, a, ...)	m(a), RT_EACH_5(m, f, __VA_ARGS__)
#define RT_EACH_7(m, f, a, ...)	m(a), RT_EACH_6(m, f, __VA_ARGS__)
#define RT_EACH_8(m, f, a, ...)	m(a), RT_EACH_7(m, f, __VA_ARGS__)
#define RT_EACH_9(m, f, a, ...)	m(a), RT_EACH_8(m, f, __VA_ARGS__)
#define RT_EACH_10(m, f, a, ...) m(a), RT_EACH_9(m, f, __VA_ARGS__)
#define RT_EACH__(n)	RT_EACH_##n
#define RT_EACH_(n)	RT_EACH__(n)
#define RT_EACH(m, ...)	RT_EACH_(RT_COUNT(__VA_ARGS__))(m, __VA_ARGS__)
#define RT_FIRST_(f, ...)	f
#define RT_FIRST(...)	RT_FIRST_(__VA_ARGS__, 0)

/*
 * RT_PROBE(provider, name, format, arguments...): an event, if somebody asks for it. At most ten arguments: whole
 * numbers, pointers, texts of the kernel's own memory. A text is read up to its zero, or RT_PROBE_TEXT_MAX bytes.
 */
#define RT_PROBE(provider_, name_, ...) do { \
	static const u8 rt_types[] = {RT_EACH(RT_TYPE_OF, __VA_ARGS__) 0}; \
	static const char *const rt_written[] = {RT_EACH(RT_TEXT_OF, __VA_ARGS__) NULL}; \
	static struct rt_probe_site rt_site __read_mostly = { \
		.version = RT_PROBE_SITE_VERSION, .line = __LINE__, .arguments = sizeof(rt_types) - 1, \
		.provider = #provider_, .name = #name_, .format = RT_FIRST(__VA_ARGS__), .file = __FILE__, \
		.type = rt_types, .written = rt_written}; \
	__module_param_call(, ringtail_probe, &rt_probe_param, &rt_site, 0, -1, 0); \
	static_assert(sizeof(#provider_) <= RT_PROBE_PROVIDER_BYTES, "the provider's name is too long"); \
	static_assert(sizeof(#name_) <= RT_PROBE_NAME_BYTES, "the probe's name is too long"); \
	static_assert(sizeof(RT_FIRST(__VA_ARGS__)) <= RT_PROBE_FORMAT_BYTES, "the probe's format is too long"); \
	if (trace_ringtail_probe_enabled() && READ_ONCE(rt_site.wanted)) { \
		const u64 rt_values[] = {RT_EACH(RT_VALUE_OF, __VA_ARGS__) 0}; \
		trace_ringtail_probe(&rt_site, rt_values); \
	} \
	if (0) \
		rt_probe_check(__VA_ARGS__); \
} while (0)

#else	/* in the kernel's image, or without tracepoints, there are no probes */

#define RT_PROBE(provider_, name_, ...) do { \
	if (0) \
		rt_probe_check(__VA_ARGS__); \
} while (0)

#endif
#endif
