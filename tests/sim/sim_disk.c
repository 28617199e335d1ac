/*
 * sim_disk: the state directory: a disk that takes its time, fails, and forgets at a power cut. It
 * outlives the daemons.
 */
#include "daemon/disk/disk.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_stored.h"

#define FAULTY_REALLOC sim_realloc
#include "tests/lib/faulty_disk.h"
#include "tests/lib/strict_segment.h"

#define NAP_NS_MAX (2 * SIM_MS)
#define LONG_NAP_NS_MAX (500 * SIM_MS)

static struct faulty_disk faulty;
static bool failed;
static uint64_t used_ns;

static const char *name_of(int handle)
{
	for (unsigned i = 0; i < faulty.names.n; i++)
		if (faulty.names.name[i].file == faulty.handle[handle].file)
			return faulty.names.name[i].path;
	return "a file that has gone";
}

/* Whoever asks waits; others go on. */
static void nap(const char *what, const char *path)
{
	used_ns = sim.now_ns;
	if (sim.steps)
		sim_log("disk: %s %s", what, path);
	if (sim_task_is_running())
		sim_task_sleep(sim_below(sim_chance(1) ? LONG_NAP_NS_MAX : NAP_NS_MAX));
}

static int slow_open(struct disk *disk, const char *path, int flags)
{
	nap("open", path);
	return faulty_open(disk, path, flags);
}

static int slow_close(struct disk *disk, int file)
{
	return faulty_close(disk, file);
}

static ssize_t slow_read(struct disk *disk, int file, void *bytes, size_t n, uint64_t offset)
{
	nap("read", name_of(file));
	return faulty_read(disk, file, bytes, n, offset);
}

static ssize_t slow_write(struct disk *disk, int file, const void *bytes, size_t n)
{
	nap("write", name_of(file));
	return faulty_write(disk, file, bytes, n);
}

static int slow_sync(struct disk *disk, int file)
{
	nap("sync", name_of(file));
	return faulty_sync(disk, file);
}

static int slow_truncate(struct disk *disk, int file, uint64_t bytes)
{
	nap("truncate", name_of(file));
	return faulty_truncate(disk, file, bytes);
}

static int slow_rename(struct disk *disk, const char *from, const char *to)
{
	nap("rename", from);
	return faulty_rename(disk, from, to);
}

static int slow_remove(struct disk *disk, const char *path)
{
	nap("remove", path);
	return faulty_remove(disk, path);
}

static int slow_make_directory(struct disk *disk, const char *path)
{
	return faulty_make_directory(disk, path);
}

static int slow_sync_directory(struct disk *disk, const char *path)
{
	nap("sync directory", path);
	return faulty_sync_directory(disk, path);
}

static int slow_list(struct disk *disk, const char *path, disk_entry *entry, void *context)
{
	nap("list", path);
	return faulty_list(disk, path, entry, context);
}

void sim_disk(struct disk *disk)
{
	static const struct disk_ops ops = {
		.open = slow_open, .close = slow_close, .read = slow_read, .write = slow_write,
		.sync = slow_sync, .truncate = slow_truncate, .rename = slow_rename,
		.remove = slow_remove, .make_directory = slow_make_directory,
		.sync_directory = slow_sync_directory, .list = slow_list,
	};

	if (!faulty.disk.ops)
		faulty_disk_init(&faulty, sim_random());
	*disk = faulty.disk;
	disk->ops = &ops;
}

void sim_disk_fail(void)
{
	static const int why[] = {ENOSPC, EIO, EROFS, 0};

	if (!faulty.disk.ops)
		return;
	if (faulty.fail_for_ever && faulty.operations > faulty.fail_at) {
		faulty.fail_at = UINT64_MAX;
		faulty.fail_for_ever = false;
		sim_log("the disk is well again");
		return;
	}
	failed = sim.gave_up = true;
	faulty.fail_at = faulty.operations + sim_below(20);
	faulty.fail_errno = why[sim_below(4)];
	faulty.fail_for_ever = sim_chance(30);
	sim_log("the disk fails soon%s", faulty.fail_for_ever ? ", and for ever" : "");
}

void sim_disk_cut(bool power)
{
	static const enum faulty_cut cuts[] = {FAULTY_DROP, FAULTY_REORDER, FAULTY_TEAR};

	failed = false;
	if (faulty.disk.ops)
		faulty_disk_cut(&faulty, power ? cuts[sim_below(3)] : FAULTY_KILL);
}

void sim_disk_check(void)
{
	struct frame_codec *codec = frame_codec_create(1);

	for (unsigned i = 0; codec && i < faulty.names.n; i++) {
		const struct faulty_name *name = &faulty.names.name[i];
		struct strict strict = {.codec = codec};

		if (name->file < 0 || (!strstr(name->path, ".seg") && !strstr(name->path, ".open")))
			continue;
		strict_read(&strict, faulty.file[name->file].bytes, faulty.file[name->file].n);
		if (strict.residual)
			sim_fail("%s: nothing in it tells of %llu attempts", name->path,
				 (unsigned long long)strict.residual);
		if (strict.wrong_ends)
			sim_fail("%s: its end says something else than it holds", name->path);
	}
	frame_codec_destroy(codec);
}

void sim_disk_told(const char *spool, uint64_t epoch, uint64_t told[SOURCE_RINGS_MAX])
{
	struct frame_codec *codec = frame_codec_create(1);
	char directory[FAULTY_PATH_BYTES];

	memset(told, 0, SOURCE_RINGS_MAX * sizeof(told[0]));
	snprintf(directory, sizeof(directory), "spool/%s", spool);
	for (unsigned i = 0; codec && i < faulty.names.n; i++) {
		const struct faulty_name *name = &faulty.names.name[i];
		struct strict strict = {.codec = codec};

		if (name->file < 0 || !faulty_is_in(name->path, directory))
			continue;
		strict_read(&strict, faulty.file[name->file].bytes, faulty.file[name->file].n);
		for (unsigned j = 0; strict.epoch == epoch && j < strict.rings; j++) {
			int ring = source_ring_of(source_of_epoch(epoch), strict.ring[j].cpu);

			if (ring >= 0 && told[ring] < strict.ring[j].told)
				told[ring] = strict.ring[j].told;
		}
	}
	frame_codec_destroy(codec);
}

uint64_t sim_disk_used_ns(void)
{
	return used_ns;
}

bool sim_disk_has_failed(void)
{
	return failed;
}

bool sim_disk_is_slow(void)
{
	return faulty.disk.ops && faulty.fail_for_ever && !faulty.fail_errno &&
	       faulty.operations > faulty.fail_at;
}
