/*
 * source_kmod: the kernel module's producer, /dev/ringtail: `struct source_ops source_kmod`.
 *
 * In: requests. Out: rings that the kernel fills, mapped through the device's own descriptor, and
 * an eventfd for the bell of each. The loader's one thread; no network.
 *
 * Opening and each request take CAP_PERFMON. The engine gets the same descriptor, but without the
 * capability it can map rings with it and change nothing.
 */
#include "daemon/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/source/syscall_catalog.h"
#include "daemon/source/tracepoints.h"
#include "kmod/uapi/ringtail_ioctl.h"
#include "proto/limits.h"
#include "query/utf8.h"

/* A bell that was lost is rung this late; the daemon asks for its own latency with bell_at. */
#define WAKE_MS 100

struct source {
	int device;
	bool recording;
	uint64_t ring_bytes;
	Ringtail__V1__Catalog *catalog;
	int watch;			/* an eventfd: probes of modules have come or gone; -1: the module tells nobody */
	unsigned listed;		/* of these, so many are known here, */
	bool loaded[RT_MODULE_PROBES_MAX];	/* and whether their modules are there */
	unsigned rings;
	struct ring_handle ring[RT_CPUS_MAX];
};

static int control(struct source *source, unsigned long command, void *argument)
{
	return ioctl(source->device, command, argument) < 0 ? -errno : 0;
}

/*
 * ---- The catalog -------------------------------------------------------------------------------
 *
 * Every probe of the module, with its fields: the device's own lists, and the kernel's tracefs, which
 * knows the names of more arguments than the headers that the module was built from.
 */

/* The module numbers field types as the wire does. */
_Static_assert((int)RT_FIELD_UNSIGNED == RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, "field types");
_Static_assert((int)RT_FIELD_SIGNED == RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, "field types");
_Static_assert((int)RT_FIELD_HEX == RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, "field types");
_Static_assert((int)RT_FIELD_DURATION == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION, "field types");
_Static_assert((int)RT_FIELD_RESULT == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT, "field types");
_Static_assert((int)RT_FIELD_FD == RINGTAIL__V1__FIELD_TYPE__FIELD_FD, "field types");
_Static_assert((int)RT_FIELD_THREAD == RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD, "field types");
_Static_assert((int)RT_FIELD_STRING == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, "field types");
_Static_assert((int)RT_FIELD_TEXT == RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, "field types");

/* A size query, then the table: *to is to be freed. */
static int read_table(int device, unsigned long command, uint32_t probe, size_t entry_bytes,
		      uint32_t max, void **to, uint32_t *count)
{
	struct rt_table table = {.probe = probe};

	if (ioctl(device, command, &table) < 0)
		return -errno;
	if (table.count > max)
		return -E2BIG;
	*to = calloc(table.count ? table.count : 1, entry_bytes);
	if (!*to)
		return -ENOMEM;
	table.to = (uintptr_t)*to;
	*count = table.count;
	if (!table.count || ioctl(device, command, &table) == 0)
		return 0;
	free(*to);
	return -errno;
}

static Ringtail__V1__Field *field_create(uint32_t type, uint32_t bits, const char *name,
					 const char *c_type)
{
	Ringtail__V1__Field *field = malloc(sizeof(*field));

	if (!field)
		return NULL;
	ringtail__v1__field__init(field);
	field->type = (Ringtail__V1__FieldType)type;
	field->bits = bits;
	field->name = strdup(name);
	field->c_type = strdup(c_type);
	if (field->name && field->c_type)
		return field;
	ringtail__v1__field__free_unpacked(field, NULL);
	return NULL;
}

static void copy_text(char *to, size_t bytes, const char *from)
{
	size_t length = strnlen(from, bytes - 1);

	memcpy(to, from, length);
	to[length] = 0;
}

/*
 * What tracefs says of a call's arguments, if it knows the call at all and counts them like the
 * module. The first argument of a call or an entry is field `first`.
 */
static void improve_args(int tracefs, const struct rt_probe_info *info, struct rt_field_info *field)
{
	struct syscall_arg arg[RT_SYSCALL_ARGS_MAX];
	uint32_t first = strcmp(info->name, "call") == 0 ? 2 : 0;
	unsigned args;

	if (strcmp(info->provider, "syscall") != 0 || strcmp(info->name, "return") == 0)
		return;
	args = syscall_args_read(tracefs, info->function, arg);
	if (!args || first + args != info->fields || strcmp(arg[0].name, "arg0") == 0)
		return;
	for (unsigned i = 0; i < args; i++) {
		struct rt_field_info *to = &field[first + i];

		to->type = (uint32_t)arg[i].type;
		to->bits = arg[i].bits;
		copy_text(to->name, sizeof(to->name), arg[i].name);
		copy_text(to->c_type, sizeof(to->c_type), arg[i].c_type);
	}
}

static int add_fields(int device, int tracefs, const struct rt_probe_info *info,
		      Ringtail__V1__Probe *probe)
{
	struct rt_field_info *field;
	uint32_t fields;
	void *table;
	int err = read_table(device, RT_IOC_FIELDS, info->id, sizeof(*field), PROBE_FIELDS_MAX,
			     &table, &fields);

	if (err)
		return err;
	field = table;
	improve_args(tracefs, info, field);
	probe->field = calloc(fields ? fields : 1, sizeof(*probe->field));
	for (uint32_t i = 0; probe->field && i < fields; i++) {
		probe->field[i] = field_create(field[i].type, field[i].bits, field[i].name,
					       field[i].c_type);
		if (!probe->field[i])
			break;
		probe->n_field++;
	}
	free(field);
	return probe->field && probe->n_field == fields ? 0 : -ENOMEM;
}

/* What another module has written, as UTF-8 without controls; between quotes as C has it. */
static void write_visible(FILE *to, const char *text, bool quoted)
{
	const uint8_t *at = (const uint8_t *)text, *end = at + strlen(text);

	while (at < end) {
		uint32_t code = 0;
		size_t bytes = utf8_decode(at, (size_t)(end - at), &code);
		bool is_visible = bytes && code >= ' ' && (code < 0x7f || code >= 0xa0);

		if (quoted && (code == '\n' || code == '\t'))
			fputs(code == '\n' ? "\\n" : "\\t", to);
		else if (quoted && (code == '"' || code == '\\'))
			fprintf(to, "\\%c", (int)code);
		else if (is_visible)
			fwrite(at, 1, bytes, to);
		else
			fputc('?', to);
		at += bytes ? bytes : 1;
	}
}

/* How an event is printed, as tracefs says it; or where the probe is. NULL: out of memory. */
static char *write_text(const struct rt_probe_source *source, const Ringtail__V1__Probe *probe, bool print)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	if (print)
		fputc('"', to);
	write_visible(to, print ? source->format : source->file, print);
	if (print)
		fputc('"', to);
	else
		fprintf(to, ":%u", source->line);
	for (size_t i = 0; print && i < probe->n_field; i++)
		fprintf(to, probe->field[i]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT ? ", __get_str(%s)" :
			", REC->%s", probe->field[i]->name);
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}

/* Of what another module has: where, and as what. */
static int add_source(int device, Ringtail__V1__Probe *probe)
{
	struct rt_probe_source source = {.probe = probe->id};
	char *text;

	if (probe->id < RT_PROBE_MADE)
		return 0;
	if (ioctl(device, RT_IOC_SOURCE, &source) < 0)
		return -errno;
	text = write_text(&source, probe, true);
	if (!text)
		return -ENOMEM;
	probe->print = text;
	text = write_text(&source, probe, false);
	if (!text)
		return -ENOMEM;
	probe->source = text;
	return 0;
}

/* One that can be freed as what was unpacked, also when it fails: then it is not whole. NULL: out of memory. */
static Ringtail__V1__Probe *probe_create(int device, int tracefs, const struct rt_probe_info *info, int *err)
{
	Ringtail__V1__Probe *probe = malloc(sizeof(*probe));

	*err = -ENOMEM;
	if (!probe)
		return NULL;
	ringtail__v1__probe__init(probe);
	probe->id = info->id;
	probe->provider = strdup(info->provider);
	probe->function = strdup(info->function);
	probe->name = strdup(info->name);
	if (!probe->provider || !probe->function || !probe->name)
		return probe;
	*err = add_fields(device, tracefs, info, probe);
	if (!*err)
		*err = add_source(device, probe);
	return probe;
}

static int add_probe(int device, int tracefs, const struct rt_probe_info *info, Ringtail__V1__Catalog *catalog)
{
	int err;
	Ringtail__V1__Probe *probe = probe_create(device, tracefs, info, &err);

	if (probe)
		catalog->probe[catalog->n_probe++] = probe;
	return err;
}

static int make_catalog(int device, Ringtail__V1__Catalog **out)
{
	Ringtail__V1__Catalog *catalog;
	struct rt_probe_info *info;
	uint32_t count = 0;
	void *table;
	int tracefs;
	int err = read_table(device, RT_IOC_LIST, 0, sizeof(*info), CATALOG_PROBES_MAX, &table,
			     &count);

	if (err)
		return err;
	info = table;
	catalog = malloc(sizeof(*catalog));
	if (!catalog) {
		free(info);
		return -ENOMEM;
	}
	ringtail__v1__catalog__init(catalog);
	tracefs = tracepoints_open_tracefs();
	catalog->probe = calloc(count ? count : 1, sizeof(*catalog->probe));
	err = catalog->probe ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < count && !err; i++)
		err = add_probe(device, tracefs, &info[i], catalog);
	if (tracefs >= 0)
		close(tracefs);
	free(info);
	if (err)
		ringtail__v1__catalog__free_unpacked(catalog, NULL);
	else
		*out = catalog;
	return err;
}

/*
 * ---- Probes of other modules --------------------------------------------------------------------
 *
 * They come when their module is loaded, and keep their numbers when it is gone.
 */

/* Asks to be told from now on. A module of before that could do so does without. */
static void watch_modules(struct source *source)
{
	source->watch = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (source->watch < 0 || control(source, RT_IOC_WATCH, &source->watch) == 0)
		return;
	close(source->watch);
	source->watch = -1;
}

/* How many of a list are such probes: the last ones, in the order of their numbers. */
static void count_listed(struct source *source)
{
	const Ringtail__V1__Catalog *catalog = source->catalog;

	for (size_t i = catalog->n_probe; i-- && catalog->probe[i]->id >= RT_PROBE_MADE; source->listed++) {
		struct rt_probe_source of_module = {.probe = RT_PROBE_MADE + source->listed};

		source->loaded[source->listed] = control(source, RT_IOC_SOURCE, &of_module) == 0 && of_module.loaded;
	}
}

/* Once for each module: its probes are beside each other. */
static void tell_gone(struct source *source)
{
	struct rt_probe_source last = {0};

	for (unsigned i = 0; i < source->listed; i++) {
		struct rt_probe_source now = {.probe = RT_PROBE_MADE + i};
		bool was = source->loaded[i];

		if (control(source, RT_IOC_SOURCE, &now) != 0)
			continue;
		source->loaded[i] = now.loaded;
		if (was == (bool)now.loaded || strcmp(last.module, now.module) == 0)
			continue;
		last = now;
		if (now.loaded)
			log_info("module-back", "module %s is loaded again: its probes record what is asked for",
				 now.module);
		else
			log_info("module-gone", "module %s is not loaded any more: its probes record nothing until it"
				 " is loaded again", now.module);
	}
}

static int kmod_attention(struct source *source, int *timeout_ms)
{
	*timeout_ms = -1;
	return source->watch;
}

static void kmod_attend(struct source *source)
{
	uint64_t times;

	if (read(source->watch, &times, sizeof(times)) == sizeof(times))
		tell_gone(source);
}

/* Those behind what is listed. */
static int kmod_arrived(struct source *source, source_offer *offer, void *context)
{
	struct rt_probe_info *info;
	uint32_t count = 0;
	void *table;
	int err = read_table(source->device, RT_IOC_LIST, 0, sizeof(*info), CATALOG_PROBES_MAX, &table, &count);

	if (err)
		return err;
	info = table;
	for (uint32_t i = 0; i < count && !err; i++) {
		Ringtail__V1__Probe *probe;

		if (info[i].id < RT_PROBE_MADE + source->listed || source->listed == RT_MODULE_PROBES_MAX)
			continue;
		probe = probe_create(source->device, -1, &info[i], &err);
		if (!err)
			err = offer(context, probe);
		if (!err)
			source->loaded[source->listed++] = true;
		if (probe)
			ringtail__v1__probe__free_unpacked(probe, NULL);
	}
	free(table);
	return err;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int open_failure(struct error *error, const char *path, int err)
{
	switch (err) {
	case ENOENT:
	case ENODEV:
	case ENXIO:
		error_set(error, err, "kmod-missing", "there is no %s: the module is not loaded",
			  path);
		error_hint(error, "load it (modprobe ringtail), or use --source bpf");
		break;
	case EACCES:
		error_set(error, err, "kmod-access", "%s may not be opened by this user", path);
		error_hint(error, "join the group that owns it (ringtail), or run as root");
		break;
	case EPERM:
		error_set(error, err, "kmod-no-capability",
			  "%s takes CAP_PERFMON, and the module's parameter allow=Y", path);
		error_hint(error, "run as root, or grant it: setcap cap_perfmon+ep ringtaild");
		break;
	default:
		error_set(error, err, "kmod-open", "cannot open %s: %s", path, strerror(err));
	}
	return -err;
}

static int check_abi(struct source *source, const char *path, struct error *error)
{
	struct rt_info info;

	if (control(source, RT_IOC_INFO, &info)) {
		error_set(error, ENOTTY, "kmod-foreign", "%s is not ringtail's device", path);
		return -ENOTTY;
	}
	if (info.abi_version == RT_ABI_VERSION)
		return 0;
	error_set(error, EPROTO, "kmod-version",
		  "the module speaks ABI version %u, this program %u", info.abi_version,
		  RT_ABI_VERSION);
	error_hint(error, "install the module and the daemon of one version");
	return -EPROTO;
}

static int configure_rings(struct source *source, const struct source_config *config,
			   struct error *error)
{
	struct rt_config rings = {
		.ring_bytes = config->ring_bytes,
		.watermark_bytes = config->ring_bytes / 4,
		.policy = config->policy,
		.wake_ms = WAKE_MS,
		/* Without RT_CONFIG_SELF the module leaves out its opener, the loader, also where the daemon traces itself. */
		.flags = RT_CONFIG_CUT | RT_CONFIG_SELF,
	};
	int err;

	memcpy(rings.excluded_pids, config->excluded_pids, sizeof(rings.excluded_pids));
	err = control(source, RT_IOC_SET_CONFIG, &rings);
	if (!err) {
		source->ring_bytes = rings.ring_bytes;
		return 0;
	}
	error_set(error, -err, "kmod-rings", "the module cannot make rings of %llu bytes: %s",
		  (unsigned long long)rings.ring_bytes, strerror(-err));
	error_hint(error, "make ring-size smaller, or load the module with a larger ring_bytes_max,"
			  " which is 16777216 by default");
	return err;
}

/* Whether the CPU has a ring: the kernel's numbers may have holes. A CPU that is added later has one already. */
static bool has_ring(struct source *source, uint32_t cpu)
{
	void *page = mmap(NULL, RT_PAGE_BYTES, PROT_READ, MAP_SHARED, source->device,
			  (off_t)RT_MAP_RING(cpu));

	if (page == MAP_FAILED)
		return false;
	munmap(page, RT_PAGE_BYTES);
	return true;
}

static int add_ring(struct source *source, uint32_t cpu, struct error *error)
{
	struct ring_handle *ring = &source->ring[source->rings];
	struct rt_bell bell = {.cpu = cpu};
	int err = 0;

	bell.eventfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (bell.eventfd < 0)
		err = -errno;
	*ring = (struct ring_handle){
		.cpu = cpu,
		.ring_fd = source->device,
		.ring_offset = RT_MAP_RING(cpu),
		.ring_bytes = RT_RING_MAP_BYTES(source->ring_bytes),
		.consumer_fd = source->device,
		.consumer_offset = RT_MAP_CONSUMER(cpu),
		.bell_fd = bell.eventfd,
		.bell = RING_BELL_EVENTFD,
	};
	if (!err) {
		source->rings++;
		err = control(source, RT_IOC_BELL, &bell);
	}
	if (err)
		error_set(error, -err, "kmod-bell", "no bell for CPU %u's ring: %s", cpu,
			  strerror(-err));
	return err;
}

static int find_rings(struct source *source, struct error *error)
{
	struct rt_info info;
	int err = control(source, RT_IOC_INFO, &info);

	for (uint32_t cpu = 0; !err && cpu < info.cpus && cpu < RT_CPUS_MAX; cpu++)
		if (has_ring(source, cpu))
			err = add_ring(source, cpu, error);
	if (err)
		return err;
	return source->rings ? 0 : error_set(error, ENXIO, "kmod-rings",
					     "the module made no ring for any CPU");
}

static void kmod_close(struct source *source)
{
	if (!source)
		return;
	for (unsigned i = 0; i < source->rings; i++)
		close(source->ring[i].bell_fd);
	if (source->catalog)
		ringtail__v1__catalog__free_unpacked(source->catalog, NULL);
	/* Who still has rings mapped holds the device too, so recording is ended by hand. */
	if (source->recording)
		control(source, RT_IOC_STOP, NULL);
	if (source->watch >= 0)
		close(source->watch);
	if (source->device >= 0)
		close(source->device);
	free(source);
}

static int kmod_open(const struct source_config *config, struct source **out, struct error *error)
{
	const char *path = config->path ? config->path : RT_DEVICE;
	struct source *source = calloc(1, sizeof(*source));
	int err;

	if (!source)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for the source");
	source->watch = -1;
	source->device = open(path, O_RDWR | O_CLOEXEC);
	err = source->device < 0 ? open_failure(error, path, errno)
				 : check_abi(source, path, error);
	if (!err)
		err = configure_rings(source, config, error);
	if (!err)
		err = find_rings(source, error);
	if (!err) {
		watch_modules(source);
		err = make_catalog(source->device, &source->catalog);
		if (err)
			error_set(error, -err, "kmod-catalog",
				  "cannot list the module's probes: %s", strerror(-err));
		else
			count_listed(source);
	}
	if (err) {
		kmod_close(source);
		return err;
	}
	*out = source;
	return 0;
}

/*
 * ---- what the loader asks for ------------------------------------------------------------------
 */

static const Ringtail__V1__Catalog *kmod_catalog(struct source *source)
{
	return source->catalog;
}

static int kmod_ring(struct source *source, unsigned i, struct ring_handle *ring)
{
	if (i >= source->rings)
		return -ENOENT;
	*ring = source->ring[i];
	return 0;
}

static bool is_empty(const struct source_request *request)
{
	for (size_t i = 0; i < sizeof(request->probes); i++)
		if (request->probes[i])
			return false;
	return true;
}

static int configure_failure(struct error *error, int err)
{
	if (err == -EPERM) {
		error_set(error, EPERM, "kmod-no-capability",
			  "changing what the module records takes CAP_PERFMON");
		error_hint(error, "run as root, or grant it: setcap cap_perfmon+ep ringtaild");
		return err;
	}
	return error_set(error, -err, "kmod-configure",
			 "the module refused what shall be recorded: %s", strerror(-err));
}

static int kmod_configure(struct source *source, const struct source_request *request,
			  struct error *error)
{
	struct rt_select select = {.flags = request->flags & ~(SOURCE_FILE_STRINGS | RT_FLAG_FDS | RT_FLAG_DATA),
				   .clauses = request->clauses};
	int err;

	if (is_empty(request)) {
		err = source->recording ? control(source, RT_IOC_STOP, NULL) : 0;
		source->recording = source->recording && err;
		return err ? configure_failure(error, err) : 0;
	}
	memcpy(select.probes, request->probes, sizeof(select.probes));
	memcpy(select.unfiltered, request->unfiltered, sizeof(select.unfiltered));
	memcpy(select.clause, request->clause, sizeof(select.clause));
	err = control(source, RT_IOC_SELECT, &select);
	if (!err && !source->recording)
		err = control(source, RT_IOC_START, NULL);
	if (err)
		return configure_failure(error, err);
	source->recording = true;
	return 0;
}

static int kmod_stats(struct source *source, struct source_stats *stats)
{
	struct rt_stats of_module;
	int err = control(source, RT_IOC_STATS, &of_module);

	if (err)
		return err;
	*stats = (struct source_stats){
		.recursion_lost = of_module.homeless + of_module.crowded + of_module.kprobe_missed,
		.program_runs = of_module.attempts,
	};
	return 0;
}

const struct source_ops source_kmod = {
	.name = "kmod",
	.open = kmod_open,
	.catalog = kmod_catalog,
	.ring = kmod_ring,
	.configure = kmod_configure,
	.stats = kmod_stats,
	.attention = kmod_attention,
	.attend = kmod_attend,
	.arrived = kmod_arrived,
	.close = kmod_close,
};
