/*
 * fuzz_client: frames of a daemon that says what it likes, through what a client makes of them:
 * hellos in mid-stream, catalogs, subscriptions, batches, gaps, watermarks, byes, errors. Whatever
 * they are, each frame brings an end of items, an item points to what is there, what is printed has
 * nothing hidden (query/visible.h) that a frame brought, where the stream stands is a cursor that reads back, and
 * every sink takes every item: those that keep much or make files see one input of some, by its length.
 *
 * The input is frames: a byte for the type, two for the body's length, little-endian, and the body.
 * They arrive with right headers (fuzz_frame has the others), after a good hello and catalog.
 * Bit 7 of the type: the connection breaks first.
 */
#include <endian.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/intake.h"
#include "client/cli/answer.h"
#include "client/cli/sink.h"
#include "proto/limits.h"
#include "query/visible.h"
#include "tests/unit/client/maker.h"

#define BODY_BYTES_MAX	4096u
#define ITEMS_MAX	100000u	/* of one frame */
#define LANES_MAX	8u	/* of CPUs, each of which has a decoder */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct intake *intake;
static struct maker start;		/* a catalog, and a hello behind it */
static size_t catalog_bytes;
static struct ringtail_host host;	/* as the printers see it */
static struct out out;
static struct sink *text, *json;

/* The other sinks, each made anew for an input whose size `every` divides. */
static struct other {
	const struct sink_ops *ops;
	size_t every;
	bool is_lines;
	struct answer_question question;
	struct sink *sink;
	char path[96];
} others[] = {
	{ .ops = &print_csv, .every = 3, .is_lines = true },
	{ .ops = &print_kptrace, .every = 3, .is_lines = true },
	{ .ops = &print_perfetto, .every = 4 },
	{ .ops = &print_folded, .every = 7, .is_lines = true },
	{ .ops = &print_pprof, .every = 7 },
	{ .ops = &answer_ops, .every = 5, .is_lines = true,
	  .question = { .shape = ANSWER_COUNT, .by = "comm,function,error", .json = true } },
	{ .ops = &answer_ops, .every = 5, .is_lines = true,
	  .question = { .shape = ANSWER_HIST, .from = "*", .to = "*:*:*", .on = "tid", .by = "comm,to.comm" } },
	{ .ops = &write_sqlite, .every = 64 },
	{ .ops = &write_ctf, .every = 64 },
};
#define OTHERS (sizeof(others) / sizeof(*others))

static bool many_lanes, other_catalog;	/* what the next input must not find */
static volatile uint64_t seen;		/* so that nothing read is optimized away */

/* Every byte that an item points to is read. */
static uint64_t touch(const struct ringtail_item *item)
{
	uint64_t sum = item->seq + item->time_ns + item->count;

	if (item->cpu >= LANES_MAX)
		many_lanes = true;
	if (item->kind != RINGTAIL_EVENT)
		return sum;
	sum += strlen(item->probe->spec);
	for (unsigned i = 0; i < item->probe->fields; i++) {
		const char *comm = NULL;

		sum += ringtail_value(&item->probe->field[i], item->value[i]);
		if (item->probe->field[i].type == RINGTAIL_THREAD)
			comm = ringtail_thread_comm(item, (uint32_t)item->value[i]);
		sum += comm ? strnlen(comm, 16) : 0;
	}
	for (size_t i = 0; i < item->attachments; i++) {
		const struct ringtail_attachment *attachment = &item->attachment[i];

		for (size_t j = 0; j < attachment->text_bytes; j++)
			sum += attachment->text[j];
		for (size_t j = 0; j < attachment->frames; j++)
			sum += attachment->frame[j];
	}
	return sum;
}

/* It is in so many lines, if it is anything. */
static void check_printed(size_t lines)
{
	size_t ended = 0;

	for (size_t i = 0; i < out.used; i++) {
		ended += out.buffer[i] == '\n';
		if (out.buffer[i] == '\n')
			out.buffer[i] = ' ';
		else if (i + 1 == out.used)
			abort();
	}
	if (visible_span(out.buffer, out.used) < out.used)
		abort();
	if (out.used && (ended < 1 || ended > lines))
		abort();
	out.used = 0;
}

/* Whole lines, of which each may end as CSV's do, with nothing hidden in them. */
static void check_lines(void)
{
	for (size_t i = 0; i + 1 < out.used; i++)
		if (out.buffer[i] == '\r' && out.buffer[i + 1] == '\n')
			out.buffer[i] = ' ';
	check_printed(out.used);
}

static void make_others(size_t size)
{
	char directory[64];
	struct ringtail_error error;

	snprintf(directory, sizeof(directory), "/tmp/ringtail-fuzz-%d", getpid());
	for (size_t i = 0; i < OTHERS; i++) {
		const struct sink_place place = {
			.path = others[i].path, .out = &out, .host = &host, .totals = intake_totals(intake),
		};

		if (size % others[i].every)
			continue;
		if (others[i].ops == &answer_ops) {
			others[i].sink = answer_create(&others[i].question, &out, &error);
		} else if (others[i].ops->open) {
			mkdir(directory, 0700);
			snprintf(others[i].path, sizeof(others[i].path), "%s/%zu", directory, i);
			others[i].sink = others[i].ops->open(&place, &error);
		} else {
			others[i].sink = others[i].ops->create(&out, &host, 0);
		}
		if (!others[i].sink)
			abort();
		if (others[i].ops->join && others[i].ops->join(others[i].sink, &place) != others[i].sink)
			abort();
	}
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
	(void)stat;
	(void)type;
	(void)walk;
	return remove(path);
}

static void end_others(void)
{
	char directory[64];
	bool any_files = false;

	for (size_t i = 0; i < OTHERS; i++) {
		if (!others[i].sink)
			continue;
		if (others[i].ops->end)
			others[i].ops->end(others[i].sink);
		if (others[i].is_lines)
			check_lines();
		out.used = 0;
		others[i].ops->destroy(others[i].sink);
		others[i].sink = NULL;
		any_files |= others[i].ops->open != NULL;
	}
	if (out.error)		/* the disk's, or a database that refused what it was given */
		abort();
	snprintf(directory, sizeof(directory), "/tmp/ringtail-fuzz-%d", getpid());
	if (any_files)
		nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void print_others(const struct ringtail_item *item)
{
	for (size_t i = 0; i < OTHERS; i++) {
		if (!others[i].sink)
			continue;
		others[i].ops->item(others[i].sink, item);
		if (others[i].is_lines)
			check_lines();
		out.used = 0;
	}
}

/* A stack has a line for each of its frames. */
static void print(const struct ringtail_item *item)
{
	size_t lines = 1;

	for (size_t i = 0; i < item->attachments; i++)
		lines += item->attachment[i].frames + 1;
	print_text.item(text, item);
	check_printed(lines);
	print_json.item(json, item);
	check_printed(1);
	print_others(item);
}

static void take_items(void)
{
	struct ringtail_error error = {0};
	struct ringtail_item item;
	enum ringtail_kind kind;

	for (unsigned i = 0;; i++) {
		if (i == ITEMS_MAX)
			abort();
		kind = intake_next(intake, &item, &error);
		if (kind == RINGTAIL_TIMEOUT)
			return;
		if (kind == RINGTAIL_ERROR) {
			if (!error.code[0] || !error.what[0])
				abort();
			continue;
		}
		seen += touch(&item);
		print(&item);
	}
}

static void check_cursors(void)
{
	static struct cursor *come, *given;
	struct cursor *again = NULL;
	static char written[CURSOR_TEXT_BYTES_MAX];
	struct ringtail_error error;

	if (!come && !(come = cursor_create(CURSOR_POSITIONS_MAX)))
		abort();
	if (!given && !(given = cursor_create(CURSOR_POSITIONS_MAX)))
		abort();
	intake_cursor_come(intake, come);
	intake_cursor_given(intake, given);
	if (come->n != given->n)
		abort();
	if (cursor_print(given, written, sizeof(written)) == 0 &&
	    (cursor_parse(written, &again, &error) != 0 || again->n != given->n))
		abort();
	free(again);
}

/* A frame with this body. False: it was refused. */
static bool send(uint8_t type, const uint8_t *body, size_t bytes)
{
	static uint8_t whole[FRAME_HEADER_BYTES + BODY_BYTES_MAX];
	struct ringtail_error error = {0};
	struct frame frame = {.bytes = whole, .size = FRAME_HEADER_BYTES + bytes};
	uint32_t length = htole32((uint32_t)bytes), crc;
	uint16_t magic = htole16(FRAME_MAGIC);

	memcpy(whole, &magic, 2);
	whole[2] = FRAME_VERSION;
	whole[3] = type;
	memcpy(whole + 4, &length, 4);
	memcpy(whole + 8, &length, 4);
	crc = htole32(frame_crc32c(frame_crc32c(0, whole, 12), body, bytes));
	memcpy(whole + 12, &crc, 4);
	memcpy(whole + FRAME_HEADER_BYTES, body, bytes);
	if (frame_parse_header(whole, frame.size, FRAME_RAW_BYTES_MAX, &frame.header) != FRAME_OK)
		return true;	/* no such type: the reader would not bring it */
	other_catalog |= type == FRAME_CATALOG;
	if (intake_frame(intake, &frame, &error) == 0)
		return true;
	if (!error.code[0] || !error.what[0])
		abort();
	return false;
}

static void send_made(size_t from, size_t to)
{
	struct frame frame = {.bytes = start.bytes + from, .size = to - from};
	struct ringtail_error error;

	if (frame_parse_header(frame.bytes, frame.size, FRAME_RAW_BYTES_MAX, &frame.header) !=
		    FRAME_OK ||
	    intake_frame(intake, &frame, &error) != 0)
		abort();
}

static void make_all(void)
{
	maker_init(&start);
	out_init(&out, open("/dev/null", O_WRONLY | O_CLOEXEC));
	text = print_text.create(&out, &host, false);
	json = print_json.create(&out, &host, false);
	if (!text || !json)
		abort();
	maker_catalog(&start);
	catalog_bytes = start.size;
}

/* A client that has been greeted, and knows what it knew when it was new. */
static void begin(void)
{
	static uint64_t epoch;

	if (!start.codec)
		make_all();
	if (!intake || many_lanes) {
		intake_destroy(intake);
		intake = intake_create(false);
		if (!intake)
			abort();
		other_catalog = true;
	}
	/* Another run of the rings: all that was counted of the one before is forgotten. */
	start.size = catalog_bytes;
	maker_hello(&start, 1, ++epoch);
	intake_restart(intake);
	intake_set_since(intake, NULL);
	send_made(catalog_bytes, start.size);
	if (other_catalog)
		send_made(0, catalog_bytes);
	many_lanes = other_catalog = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool good = true;

	begin();
	make_others(size);
	while (good && size >= 3) {
		size_t bytes = data[1] | (size_t)data[2] << 8;
		uint8_t type = data[0] & 0x7f;

		if (data[0] & 0x80)
			intake_restart(intake);
		data += 3;
		size -= 3;
		if (bytes > size)
			bytes = size;
		if (bytes > BODY_BYTES_MAX)
			bytes = BODY_BYTES_MAX;
		good = send(type, data, bytes);
		host = *intake_host(intake);
		take_items();
		data += bytes;
		size -= bytes;
	}
	check_cursors();
	intake_flush(intake);
	take_items();
	end_others();
	if (intake_totals(intake)->frames == 0)
		abort();
	return 0;
}
