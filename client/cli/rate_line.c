#include "client/cli/rate_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "client/lib/limits.h"
#include "client/cli/units.h"

#define INTERVAL_NS (RATE_LINE_INTERVAL_MS * 1000000ull)

void rate_line_init(struct rate_line *line, FILE *to)
{
	*line = (struct rate_line){ .to = isatty(fileno(to)) ? to : NULL };
}

void rate_line_format(char *text, size_t bytes, double events_rate, double wire_rate,
		      const struct ringtail_totals *totals)
{
	char rate[UNITS_TEXT_BYTES], wire[UNITS_TEXT_BYTES], lost[UNITS_TEXT_BYTES];
	char all[UNITS_TEXT_BYTES];

	snprintf(text, bytes, "%s events/s  %s/s  %s events  %s%s lost  ledger %s",
		 units_format_rate(events_rate, rate), units_format_bytes(wire_rate, wire),
		 units_format_rate((double)totals->events, all),
		 units_format_rate((double)totals->lost, lost),
		 totals->unknown ? " and an unknown number" : "",
		 totals->residual ? "does not close" : "balanced");
}

bool rate_line_due(const struct rate_line *line, uint64_t now_ns)
{
	return line->to && now_ns - line->drawn_ns >= INTERVAL_NS;
}

/* In one row: what wraps around could not be taken away again. */
static void draw(struct rate_line *line)
{
	struct winsize size;
	int columns = sizeof(line->text);

	if (ioctl(fileno(line->to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		columns = size.ws_col - 1;
	fprintf(line->to, "\r%.*s\033[K", columns, line->text);
	fflush(line->to);
	line->shown = true;
}

int rate_line_update(struct rate_line *line, const struct ringtail_totals *totals, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - line->drawn_ns;
	double seconds;
	size_t lead;

	if (!line->to)
		return -1;
	if (line->drawn_ns && passed_ns < INTERVAL_NS) {
		if (!line->shown && *line->text)
			draw(line);
		return (int)((INTERVAL_NS - passed_ns + 999999) / 1000000);
	}
	if (line->drawn_ns) {		/* the first time there is no rate yet */
		seconds = (double)passed_ns / 1e9;
		lead = (size_t)snprintf(line->text, sizeof(line->text), "%s%s", line->lead, *line->lead ? "  " : "");
		rate_line_format(line->text + lead, sizeof(line->text) - lead,
				 (double)(totals->events - line->events) / seconds,
				 (double)(totals->wire_bytes - line->wire_bytes) / seconds, totals);
		draw(line);
	}
	line->drawn_ns = now_ns;
	line->events = totals->events;
	line->wire_bytes = totals->wire_bytes;
	return RATE_LINE_INTERVAL_MS;
}

void rate_line_clear(struct rate_line *line)
{
	if (!line->shown)
		return;
	fputs("\r\033[K", line->to);
	fflush(line->to);
	line->shown = false;
}
