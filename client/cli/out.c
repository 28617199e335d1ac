#include "client/cli/out.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "query/digits.h"
#include "query/visible.h"

void out_init(struct out *out, int fd)
{
	out->fd = fd;
	out->error = 0;
	out->column = 0;
	out->flushed = 0;
	out->used = 0;
	out->before_write = NULL;
	out->context = NULL;
}

void out_set_before_write(struct out *out, void (*before)(void *context), void *context)
{
	out->before_write = before;
	out->context = context;
}

int out_flush(struct out *out)
{
	size_t done = 0;

	if (out->used && out->before_write)
		out->before_write(out->context);
	while (done < out->used && !out->error) {
		ssize_t n = write(out->fd, out->buffer + done, out->used - done);

		if (n >= 0) {
			done += (size_t)n;
		} else if (errno == EAGAIN) {	/* somebody else made our stdout non-blocking */
			struct pollfd polled = { .fd = out->fd, .events = POLLOUT };

			poll(&polled, 1, -1);
		} else if (errno != EINTR) {
			out->error = errno;
		}
	}
	out->flushed += out->used;
	out->used = 0;
	return -out->error;
}

void out_bytes_long(struct out *out, const char *bytes, size_t n)
{
	while (n) {
		size_t some = n < sizeof(out->buffer) ? n : sizeof(out->buffer);

		memcpy(out_room(out, some), bytes, some);
		out_advance(out, some);
		bytes += some;
		n -= some;
	}
}

void out_u64(struct out *out, uint64_t value)
{
	char text[DIGITS_BYTES_MAX], *begin = digits_before(text + sizeof(text), value);

	out_bytes(out, begin, (size_t)(text + sizeof(text) - begin));
}

void out_i64(struct out *out, int64_t value)
{
	if (value < 0)
		out_char(out, '-');
	out_u64(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void out_digits(struct out *out, uint64_t value, unsigned digits)
{
	char text[DIGITS_BYTES_MAX];

	memset(text, '0', sizeof(text));
	digits_before(text + sizeof(text), value);
	out_bytes(out, text + sizeof(text) - digits, digits);
}

void out_hex(struct out *out, uint64_t value)
{
	char *to = out_room(out, DIGITS_HEX_BYTES_MAX);

	out_advance(out, (size_t)(digits_put_hex(to, value) - to));
}

void out_octal(struct out *out, uint64_t value)
{
	unsigned digits = value ? (66 - (unsigned)__builtin_clzll(value)) / 3 : 0;
	char *to = out_room(out, 23);

	to[0] = '0';
	for (unsigned i = digits; i > 0; i--, value >>= 3)
		to[i] = (char)('0' + (value & 7));
	out_advance(out, 1 + digits);
}

void out_mark(struct out *out)
{
	out->column = out->flushed + out->used;
}

void out_pad(struct out *out, unsigned width)
{
	uint64_t written = out->flushed + out->used - out->column;

	if (written < width) {
		memset(out_room(out, width), ' ', width - written);
		out_advance(out, width - written);
	}
}

size_t out_comm_bytes(const char comm[16])
{
	return strnlen(comm, 16);
}

void out_comm(struct out *out, const char comm[16])
{
	char *to = out_room(out, 17);

	out_advance(out, visible_copy(to, 17, comm, out_comm_bytes(comm)));
}

void out_visible(struct out *out, const char *text)
{
	size_t n = strlen(text), bytes;
	uint32_t code;

	while (n) {
		bytes = visible_span(text, n);
		out_bytes(out, text, bytes);
		text += bytes;
		n -= bytes;
		if (!n)
			break;
		visible_next(text, n, &bytes, &code);
		out_char(out, '?');
		text += bytes;
		n -= bytes;
	}
}

/* ---- Bytes of any kind as JSON --------------------------------------------------------------- */

static void escape(struct out *out, uint32_t code)
{
	char *to = out_room(out, 6);

	to[0] = '\\';
	to[1] = 'u';
	for (unsigned i = 0; i < 4; i++)
		to[2 + i] = "0123456789abcdef"[code >> (12 - 4 * i) & 15];
	out_advance(out, 6);
}

/* One piece that is not plain. How many bytes it took. */
static size_t put_piece(struct out *out, const char *at, size_t n)
{
	size_t bytes;
	uint32_t code;

	if (visible_next(at, n, &bytes, &code) == VISIBLE_SHOWN)
		out_bytes(out, at, bytes);
	else
		escape(out, code);
	return bytes;
}

size_t out_plain_span(const char *at, size_t n)
{
	size_t plain = 0;

	while (plain < n && at[plain] >= ' ' && at[plain] < 0x7f && at[plain] != '"' && at[plain] != '\\')
		plain++;
	return plain;
}

void json_quote(struct out *out, const char *at, size_t n)
{
	const char *end = at + n;

	out_char(out, '"');
	while (at < end) {
		size_t plain = out_plain_span(at, (size_t)(end - at));

		out_bytes(out, at, plain);
		at += plain;
		if (at == end)
			break;
		if (*at == '"' || *at == '\\') {
			out_char(out, '\\');
			out_char(out, *at++);
		} else {
			at += put_piece(out, at, (size_t)(end - at));
		}
	}
	out_char(out, '"');
}

void json_put(struct out *out, const char *text)
{
	size_t n = strlen(text);

	while (n) {
		size_t bytes = visible_span(text, n);

		out_bytes(out, text, bytes);
		if (bytes < n)
			bytes += put_piece(out, text + bytes, n - bytes);
		text += bytes;
		n -= bytes;
	}
}

/* ---- Times of day ---------------------------------------------------------------------------- */

void wall_clock_init(struct wall_clock *clock, bool utc)
{
	tzset();		/* localtime_r() need not */
	*clock = (struct wall_clock){ .utc = utc, .second = UINT64_MAX };
}

void wall_clock_set(struct wall_clock *clock, uint64_t monotonic_ns, uint64_t realtime_ns)
{
	uint64_t offset_ns = realtime_ns - monotonic_ns;

	if (offset_ns == clock->offset_ns)
		return;
	clock->offset_ns = offset_ns;
	clock->second = UINT64_MAX;
}

void wall_clock_print(struct wall_clock *clock, struct out *out, uint64_t monotonic_ns)
{
	uint64_t wall_ns = monotonic_ns + clock->offset_ns;
	uint64_t second = wall_ns / 1000000000u;

	if (second != clock->second) {
		time_t when = (time_t)second;
		struct tm parts = { 0 };

		if (clock->utc)
			gmtime_r(&when, &parts);
		else
			localtime_r(&when, &parts);
		clock->text_bytes =
			(unsigned)strftime(clock->text, sizeof(clock->text),
					   clock->utc ? "%Y-%m-%dT%H:%M:%S." : "%H:%M:%S.", &parts);
		clock->second = second;
	}
	out_bytes(out, clock->text, clock->text_bytes);
	if (clock->utc) {
		out_digits(out, wall_ns % 1000000000u, 9);
		out_char(out, 'Z');
	} else {
		out_digits(out, wall_ns % 1000000000u / 1000, 6);
	}
}
