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
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/source/syscall_catalog.h"
#include "daemon/source/tracepoints.h"
#include "kmod/uapi/ringtail_ioctl.h"
#include "proto/limits.h"

/* A bell that was lost is rung this late; the daemon asks for its own latency with bell_at. */
#define WAKE_MS 100

struct source {
	int device;
	bool recording;
	uint64_t ring_bytes;
	Ringtail__V1__Catalog *catalog;
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

static int add_probe(int device, int tracefs, const struct rt_probe_info *info,
		     Ringtail__V1__Catalog *catalog)
{
	Ringtail__V1__Probe *probe = malloc(sizeof(*probe));

	if (!probe)
		return -ENOMEM;
	ringtail__v1__probe__init(probe);
	catalog->probe[catalog->n_probe++] = probe;
	probe->id = info->id;
	probe->provider = strdup(info->provider);
	probe->function = strdup(info->function);
	probe->name = strdup(info->name);
	if (!probe->provider || !probe->function || !probe->name)
		return -ENOMEM;
	return add_fields(device, tracefs, info, probe);
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
		.flags = RT_CONFIG_CUT,
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
	source->device = open(path, O_RDWR | O_CLOEXEC);
	err = source->device < 0 ? open_failure(error, path, errno)
				 : check_abi(source, path, error);
	if (!err)
		err = configure_rings(source, config, error);
	if (!err)
		err = find_rings(source, error);
	if (!err) {
		err = make_catalog(source->device, &source->catalog);
		if (err)
			error_set(error, -err, "kmod-catalog",
				  "cannot list the module's probes: %s", strerror(-err));
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
	.close = kmod_close,
};
