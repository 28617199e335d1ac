// SPDX-License-Identifier: GPL-2.0-only
/*
 * provider_module: see provider_module.h.
 *
 * A module with probes has one tracepoint. By that the kernel tells of the module, also of one that was there before
 * (register_tracepoint_module_notifier()); and its probes call it with what they are and their values. Each consumer
 * that asks for any of them is registered there, so the kernel waits for callers as at its own tracepoints.
 */
#define pr_fmt(format) KBUILD_MODNAME ": " format

#include "provider_module.h"

#include <linux/ctype.h>
#include <linux/eventfd.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "compat.h"
#include "consumer.h"
#include "emit.h"
#include "kmod/uapi/ringtail_probe.h"

#define TEXT_WORDS_MAX (1 + RT_PROBE_TEXT_MAX / 8)

static_assert(RT_PROBE_TEXT_MAX <= RT_STRING_BYTES_MAX);
/* With both stacks. */
static_assert(RT_RECORD_HEADER_BYTES / 8 + RT_PROBE_ARGS_MAX * (1 + TEXT_WORDS_MAX) +
	      2 * (1 + RT_STACK_FRAMES_MAX) <= RT_RECORD_WORDS_MAX);

/* A probe, as user space gets it: it does not change, and stays. */
struct known {
	struct rt_probe_info info;
	struct rt_field_info field[RT_PROBE_ARGS_MAX];
	struct rt_probe_source source;
};

/* A module that is loaded. */
struct probed {
	struct list_head link;
	struct module *module;
	struct tracepoint *tracepoint;
	struct list_head taps;
};

/* A consumer that is registered at a module's tracepoint. */
struct tap {
	struct list_head link;
	struct rt_consumer *consumer;
};

/* Inside a consumer's lock; outside those of the kernel's tracepoints. */
static DEFINE_MUTEX(modules_lock);
static LIST_HEAD(modules);
static LIST_HEAD(consumers);

/* Added to under modules_lock. The release of the count meets the acquire of whoever looks. */
static struct known *known[RT_MODULE_PROBES_MAX];
static u32 known_count;

/* ---- Events -------------------------------------------------------------------------------------- */

static u32 text_bytes(u64 value)
{
	return strnlen((const char *)(unsigned long)value, RT_PROBE_TEXT_MAX);
}

/* What stands for a text that is not there, as printk() has it. */
static u64 text_or_null(u64 value)
{
	return value ? value : (unsigned long)"(null)";
}

static u64 *write_text(u64 *to, u64 value, u32 field, u32 bytes)
{
	struct rt_attachment *attachment = (struct rt_attachment *)to;
	u32 words = DIV_ROUND_UP(bytes, 8);

	attachment->kind = RT_ATTACH_STRING;
	attachment->arg = field;
	attachment->bytes = bytes;
	if (words)
		to[words] = 0;
	memcpy(to + 1, (const char *)(unsigned long)value, bytes);
	return to + 1 + words;
}

/* The words of the arguments, and then of texts: each has as many bytes as it had when it was measured. */
static void on_event(void *data, struct rt_probe_site *site, const u64 *value)
{
	u32 i, arguments = site->arguments, words = arguments;
	u32 bytes[RT_PROBE_ARGS_MAX];
	struct rt_emit emit;
	u64 *texts;

	for (i = 0; i < arguments; i++) {
		if (rt_probe_type_kind(site->type[i]) != RT_PROBE_TEXT_KIND)
			continue;
		bytes[i] = text_bytes(text_or_null(value[i]));
		words += 1 + DIV_ROUND_UP(bytes[i], 8);
	}
	if (!rt_emit_begin(&emit, data, READ_ONCE(site->id), words, NULL))
		return;
	texts = emit.payload + arguments;
	for (i = 0; i < arguments; i++) {
		bool is_text = rt_probe_type_kind(site->type[i]) == RT_PROBE_TEXT_KIND;

		emit.payload[i] = is_text ? bytes[i] : value[i];
		if (is_text)
			texts = write_text(texts, text_or_null(value[i]), i, bytes[i]);
	}
	rt_emit_end(&emit);
}

/* ---- Descriptions -------------------------------------------------------------------------------- */

static bool is_word(char c)
{
	return isascii(c) && (isalnum(c) || c == '_');
}

static bool is_name(const char *name)
{
	size_t i;

	for (i = 0; name[i]; i++)
		if (!is_word(name[i]))
			return false;
	return i && !isdigit(name[0]);
}

/* Also where it is what a later argument may have to be called. */
static bool has_field(const struct known *entry, u32 fields, const char *name)
{
	u32 i;

	for (i = 0; i < fields; i++)
		if (strcmp(entry->field[i].name, name) == 0)
			return true;
	return strncmp(name, "arg", 3) == 0 && isdigit(name[3]);
}

/* An argument's last word: `us` of request->us. Where that is none, or is taken: arg and its number. */
static void name_field(struct known *entry, u32 i, const char *written)
{
	char *name = entry->field[i].name;
	size_t end = strlen(written), begin;

	while (end && isspace(written[end - 1]))
		end--;
	for (begin = end; begin && is_word(written[begin - 1]);)
		begin--;
	if (end - begin < sizeof(entry->field[i].name))
		memcpy(name, written + begin, end - begin);
	if (is_name(name) && !has_field(entry, i, name))
		return;
	memset(name, 0, sizeof(entry->field[i].name));
	snprintf(name, sizeof(entry->field[i].name), "arg%u", i);
}

static void describe_type(struct rt_field_info *field, u8 type)
{
	static const enum rt_field_type types[] = {
		[RT_PROBE_UNSIGNED] = RT_FIELD_UNSIGNED, [RT_PROBE_SIGNED] = RT_FIELD_SIGNED,
		[RT_PROBE_POINTER] = RT_FIELD_HEX, [RT_PROBE_TEXT_KIND] = RT_FIELD_TEXT,
	};
	u32 kind = rt_probe_type_kind(type), bits = rt_probe_type_bytes(type) * 8;

	field->type = types[kind];
	field->bits = kind == RT_PROBE_TEXT_KIND ? 0 : bits;
	if (kind == RT_PROBE_TEXT_KIND)
		strscpy(field->c_type, "char[]", sizeof(field->c_type));
	else if (kind == RT_PROBE_POINTER)
		strscpy(field->c_type, "pointer", sizeof(field->c_type));
	else
		snprintf(field->c_type, sizeof(field->c_type), "%c%u", kind == RT_PROBE_SIGNED ? 's' : 'u', bits);
}

/* Of a path that is too long, the end. */
static void copy_path(char *to, size_t room, const char *path)
{
	size_t bytes = strlen(path);

	strscpy(to, bytes < room ? path : path + bytes - (room - 1), room);
}

static void describe(struct known *entry, const struct module *module, const struct rt_probe_site *site)
{
	u32 i;

	entry->info.fields = site->arguments;
	strscpy(entry->info.provider, site->provider, sizeof(entry->info.provider));
	strscpy(entry->info.function, site->name, sizeof(entry->info.function));
	strscpy(entry->info.name, "event", sizeof(entry->info.name));
	entry->source.line = site->line;
	strscpy(entry->source.module, module->name, sizeof(entry->source.module));
	copy_path(entry->source.file, sizeof(entry->source.file), site->file);
	strscpy(entry->source.format, site->format, sizeof(entry->source.format));
	for (i = 0; i < site->arguments; i++) {
		describe_type(&entry->field[i], site->type[i]);
		name_field(entry, i, site->written[i]);
	}
}

/* What a daemon would take for another kind of probe. */
static bool is_own(const char *provider)
{
	static const char *const own[] = {
		"syscall", "tracepoint", "profile", "interval", "software", "hardware", "kprobe", "kretprobe",
		"fentry", "fexit", "uprobe", "uretprobe", "usdt", "process",
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(own); i++)
		if (strcmp(own[i], provider) == 0)
			return true;
	return false;
}

/* Why it is not offered; NULL: it is. */
static const char *unfit(const struct rt_probe_site *site)
{
	u32 i;

	if (site->version != RT_PROBE_SITE_VERSION)
		return "it was built with another version of ringtail_probe.h";
	if (site->arguments > RT_PROBE_ARGS_MAX)
		return "it has too many arguments";
	for (i = 0; i < site->arguments; i++)
		if (!rt_probe_type_kind(site->type[i]) ||
		    rt_probe_type_kind(site->type[i]) > RT_PROBE_TEXT_KIND)
			return "an argument has a type that does not exist";
	if (!is_name(site->provider) || !is_name(site->name))
		return "its name has other characters than letters, digits and _";
	return is_own(site->provider) ? "its provider is a name of ringtail's own probes" : NULL;
}

static bool is_same(const struct known *a, const struct known *b)
{
	struct rt_probe_info info = b->info;

	info.id = a->info.id;
	return memcmp(&a->info, &info, sizeof(info)) == 0 && memcmp(a->field, b->field, sizeof(a->field)) == 0 &&
	       memcmp(&a->source, &b->source, sizeof(a->source)) == 0;
}

/* The number of what is described: the one that it has, or a new one; 0: there is none left. Takes `entry` over. */
static u32 number(struct known *entry)
{
	u32 i;

	for (i = 0; i < known_count; i++) {
		if (is_same(known[i], entry)) {
			kfree(entry);
			return known[i]->info.id;
		}
	}
	if (known_count == RT_MODULE_PROBES_MAX) {
		kfree(entry);
		return 0;
	}
	entry->info.id = RT_PROBE_MADE + known_count;
	known[known_count] = entry;
	smp_store_release(&known_count, known_count + 1);
	return entry->info.id;
}

static void number_site(const struct module *module, struct rt_probe_site *site)
{
	const char *why = unfit(site);
	struct known *entry = why ? NULL : kzalloc(sizeof(*entry), GFP_KERNEL);
	u32 id = 0;

	if (entry) {
		describe(entry, module, site);
		id = number(entry);
		why = id ? NULL : "there are too many";
	} else if (!why) {
		why = "there is no memory";
	}
	WRITE_ONCE(site->id, id);
	if (why)
		pr_warn("a probe of module %s, line %u, is not offered: %s\n", module->name, site->line, why);
}

/* ---- Modules ------------------------------------------------------------------------------------- */

/* The probe that a module's i-th parameter stands for; NULL: it is none. */
static struct rt_probe_site *site_at(const struct module *module, u32 i)
{
	const struct kernel_param *param = &module->kp[i];

	return !param->perm && strcmp(param->name, RT_PROBE_PARAM) == 0 ? param->arg : NULL;
}

static bool is_wanted(const struct rt_plan *plan, const struct rt_probe_site *site)
{
	return plan && site->id && plan->of_probe[site->id];
}

static bool wants_any(const struct rt_plan *plan, const struct module *module)
{
	u32 i;

	for (i = 0; i < module->num_kp; i++) {
		const struct rt_probe_site *site = site_at(module, i);

		if (site && is_wanted(plan, site))
			return true;
	}
	return false;
}

/* Each site says whether any consumer wants it. */
static void mark_sites(const struct module *module)
{
	struct rt_consumer *consumer;
	u32 i;

	for (i = 0; i < module->num_kp; i++) {
		struct rt_probe_site *site = site_at(module, i);
		bool wanted = false;

		if (!site)
			continue;
		list_for_each_entry(consumer, &consumers, of_modules)
			wanted |= is_wanted(consumer->module_plan, site);
		WRITE_ONCE(site->wanted, wanted);
	}
}

static struct tap *find_tap(const struct probed *probed, const struct rt_consumer *consumer)
{
	struct tap *tap;

	list_for_each_entry(tap, &probed->taps, link)
		if (tap->consumer == consumer)
			return tap;
	return NULL;
}

static int attach(struct probed *probed, struct rt_consumer *consumer)
{
	struct tap *tap = kzalloc(sizeof(*tap), GFP_KERNEL_ACCOUNT);
	int err;

	if (!tap)
		return -ENOMEM;
	err = tracepoint_probe_register(probed->tracepoint, on_event, consumer);
	if (err) {
		kfree(tap);
		return err;
	}
	tap->consumer = consumer;
	list_add(&tap->link, &probed->taps);
	return 0;
}

static void detach(struct probed *probed, struct tap *tap)
{
	tracepoint_probe_unregister(probed->tracepoint, on_event, tap->consumer);
	list_del(&tap->link);
	kfree(tap);
}

static int follow(struct probed *probed, struct rt_consumer *consumer)
{
	struct tap *tap = find_tap(probed, consumer);
	bool wants = wants_any(consumer->module_plan, probed->module);

	if (wants && !tap)
		return attach(probed, consumer);
	if (!wants && tap)
		detach(probed, tap);
	return 0;
}

int rt_module_update(struct rt_consumer *consumer, const struct rt_plan *plan)
{
	struct probed *probed;
	int err = 0;

	mutex_lock(&modules_lock);
	consumer->module_plan = plan;
	list_for_each_entry(probed, &modules, link) {
		err = follow(probed, consumer);
		if (err)
			break;
		mark_sites(probed->module);
	}
	mutex_unlock(&modules_lock);
	return err;
}

static void tell_watchers(void)
{
	struct rt_consumer *consumer;

	list_for_each_entry(consumer, &consumers, of_modules)
		if (consumer->module_watch)
			rt_eventfd_signal(consumer->module_watch);
}

static struct tracepoint *find_tracepoint(const struct module *module)
{
	u32 i;

	for (i = 0; i < module->num_tracepoints; i++) {
		struct tracepoint *tracepoint = tracepoint_ptr_deref(&module->tracepoints_ptrs[i]);

		if (strcmp(tracepoint->name, RT_PROBE_TRACEPOINT) == 0)
			return tracepoint;
	}
	return NULL;
}

static void come(struct module *module)
{
	struct tracepoint *tracepoint = find_tracepoint(module);
	struct rt_consumer *consumer;
	struct probed *probed;
	u32 i;

	if (!tracepoint)
		return;
	probed = kzalloc(sizeof(*probed), GFP_KERNEL);
	if (!probed) {
		pr_warn("the probes of module %s are not offered: there is no memory\n", module->name);
		return;
	}
	probed->module = module;
	probed->tracepoint = tracepoint;
	INIT_LIST_HEAD(&probed->taps);
	mutex_lock(&modules_lock);
	for (i = 0; i < module->num_kp; i++)
		if (site_at(module, i))
			number_site(module, site_at(module, i));
	list_add_tail(&probed->link, &modules);
	list_for_each_entry(consumer, &consumers, of_modules)
		if (follow(probed, consumer))
			pr_warn("the probes of module %s are not recorded: there is no memory\n", module->name);
	mark_sites(module);
	tell_watchers();
	mutex_unlock(&modules_lock);
}

static struct probed *find_probed(const struct module *module)
{
	struct probed *probed;

	list_for_each_entry(probed, &modules, link)
		if (probed->module == module)
			return probed;
	return NULL;
}

/* Its code has ended: nobody is in a probe. */
static void go(struct module *module)
{
	struct probed *probed;
	struct tap *tap, *next;

	mutex_lock(&modules_lock);
	probed = find_probed(module);
	if (probed) {
		list_del(&probed->link);
		if (!list_empty(&probed->taps))
			pr_info("module %s ends while it is recorded: its probes are silent until it is loaded again\n",
				module->name);
		list_for_each_entry_safe(tap, next, &probed->taps, link)
			detach(probed, tap);
		kfree(probed);
		tell_watchers();
	}
	mutex_unlock(&modules_lock);
}

static int on_module(struct notifier_block *block, unsigned long event, void *data)
{
	struct tp_module *of_module = data;

	if (event == MODULE_STATE_COMING)
		come(of_module->mod);
	else if (event == MODULE_STATE_GOING)
		go(of_module->mod);
	return NOTIFY_OK;
}

static struct notifier_block notifier = {.notifier_call = on_module};

/* ---- Consumers ----------------------------------------------------------------------------------- */

void rt_module_join(struct rt_consumer *consumer)
{
	mutex_lock(&modules_lock);
	list_add_tail(&consumer->of_modules, &consumers);
	mutex_unlock(&modules_lock);
}

void rt_module_leave(struct rt_consumer *consumer)
{
	rt_module_watch(consumer, NULL);
	mutex_lock(&modules_lock);
	list_del(&consumer->of_modules);
	mutex_unlock(&modules_lock);
}

void rt_module_watch(struct rt_consumer *consumer, struct eventfd_ctx *eventfd)
{
	mutex_lock(&modules_lock);
	swap(consumer->module_watch, eventfd);
	mutex_unlock(&modules_lock);
	if (eventfd)
		eventfd_ctx_put(eventfd);
}

/* ---- What there is ------------------------------------------------------------------------------- */

static const struct known *find(u32 probe)
{
	if (probe < RT_PROBE_MADE || probe - RT_PROBE_MADE >= smp_load_acquire(&known_count))
		return NULL;
	return known[probe - RT_PROBE_MADE];
}

bool rt_module_has(u32 probe)
{
	return find(probe) != NULL;
}

bool rt_module_describe(u32 probe, struct rt_probe_info *info)
{
	const struct known *entry = find(probe);

	if (entry)
		*info = entry->info;
	return entry;
}

void rt_module_field(u32 probe, u32 i, struct rt_field_info *field)
{
	*field = find(probe)->field[i];
}

static bool is_loaded(u32 probe)
{
	struct probed *probed;
	u32 i;

	list_for_each_entry(probed, &modules, link)
		for (i = 0; i < probed->module->num_kp; i++) {
			const struct rt_probe_site *site = site_at(probed->module, i);

			if (site && site->id == probe)
				return true;
		}
	return false;
}

int rt_module_source(u32 probe, struct rt_probe_source *source)
{
	const struct known *entry = find(probe);

	if (!entry)
		return -ENODATA;
	*source = entry->source;
	source->probe = probe;
	mutex_lock(&modules_lock);
	source->loaded = is_loaded(probe);
	mutex_unlock(&modules_lock);
	return 0;
}

int __init rt_module_init(void)
{
	return register_tracepoint_module_notifier(&notifier);
}

void rt_module_fini(void)
{
	u32 i;

	/* Also tells of each module that is there that it goes. */
	unregister_tracepoint_module_notifier(&notifier);
	for (i = 0; i < known_count; i++)
		kfree(known[i]);
}
