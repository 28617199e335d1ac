#include "client/cli/screen.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* A block is as long as the daemon has clients: a file in memory takes any. */
struct screen {
	struct out out;
};

int screen_create(struct screen **made)
{
	struct screen *screen = malloc(sizeof(*screen));
	int fd;

	if (!screen)
		return -ENOMEM;
	fd = memfd_create("screen", MFD_CLOEXEC);
	if (fd < 0) {
		free(screen);
		return -errno;
	}
	out_init(&screen->out, fd);
	*made = screen;
	return 0;
}

void screen_destroy(struct screen *screen)
{
	if (!screen)
		return;
	close(screen->out.fd);
	free(screen);
}

struct out *screen_begin(struct screen *screen)
{
	int fd = screen->out.fd;

	out_init(&screen->out, fd);
	if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) < 0)
		screen->out.error = errno;
	return &screen->out;
}

static unsigned count_lines(const char *text, size_t bytes)
{
	unsigned lines = 0;

	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n';
	return lines;
}

/* How many rows a line takes when it is wrapped. Each byte counts as a column, so the number is never too small. */
static unsigned count_rows(size_t bytes, unsigned columns)
{
	return columns && bytes ? (unsigned)((bytes + columns - 1) / columns) : 1;
}

/* As much of the text, in whole lines, as fits into so many rows. */
static size_t fitting(const char *text, size_t bytes, unsigned rows, unsigned columns)
{
	size_t at = 0;

	while (at < bytes) {
		const char *end = memchr(text + at, '\n', bytes - at);
		size_t line = (size_t)(end - text) - at;
		unsigned takes = count_rows(line, columns);

		if (takes > rows)
			break;
		rows -= takes;
		at += line + 1;
	}
	return at;
}

static void put_lines(struct out *to, const char *text, size_t bytes, unsigned rows,
		      unsigned columns)
{
	size_t shown = bytes;

	/* The cursor takes a row too, and so does the line about what does not fit. */
	if (rows && fitting(text, bytes, rows - 1, columns) < bytes)
		shown = fitting(text, bytes, rows > 2 ? rows - 2 : 0, columns);
	out_bytes(to, text, shown);
	if (shown < bytes) {
		out_u64(to, count_lines(text + shown, bytes - shown));
		out_literal(to, " more lines do not fit\n");
	}
}

int screen_draw(struct screen *screen, struct out *to, unsigned rows, unsigned columns)
{
	size_t bytes;
	char *text;
	int err = out_flush(&screen->out);

	if (err)
		return err;
	bytes = screen->out.flushed;
	text = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, screen->out.fd, 0) : NULL;
	if (text == MAP_FAILED)
		return -errno;
	out_literal(to, "\033[H\033[J");
	if (text) {
		put_lines(to, text, bytes, rows, columns);
		munmap(text, bytes);
	}
	return 0;
}

int screen_take(struct screen *screen, char **text, size_t *bytes)
{
	int err = out_flush(&screen->out);
	ssize_t n;

	if (err)
		return err;
	*bytes = screen->out.flushed;
	*text = malloc(*bytes + 1);
	if (!*text)
		return -ENOMEM;
	n = pread(screen->out.fd, *text, *bytes, 0);
	if (n >= 0 && (size_t)n == *bytes)
		return 0;
	err = n < 0 ? -errno : -EIO;
	free(*text);
	return err;
}

void screen_size(unsigned *rows, unsigned *columns)
{
	struct winsize size;

	*rows = *columns = 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
		*rows = size.ws_row;
		*columns = size.ws_col;
	}
}
