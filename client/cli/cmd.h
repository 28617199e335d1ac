/*
 * cmd: the commands of tracectl, one file each.
 */
#ifndef RINGTAIL_CLIENT_CLI_CMD_H
#define RINGTAIL_CLIENT_CLI_CMD_H

#include "client/cli/options.h"
#include "client/cli/pump.h"

enum exit_code cmd_list(const struct settings *settings);
enum exit_code cmd_list_hosts(const struct settings *settings);
enum exit_code cmd_stream(const struct settings *settings);
enum exit_code cmd_record(const struct settings *settings);
enum exit_code cmd_dump(const struct settings *settings);
enum exit_code cmd_dumps(const struct settings *settings);
enum exit_code cmd_read(const struct settings *settings);
enum exit_code cmd_count(const struct settings *settings);
enum exit_code cmd_hist(const struct settings *settings);
enum exit_code cmd_summary(const struct settings *settings);
/*
 * With --from and --to: which events the answer takes. --pid and --comm say whose the pairs are, and another thread's
 * event may end one.
 */
void cmd_ask_pairs(struct settings *asked);
enum exit_code cmd_explain(const struct settings *settings, const char *command);
enum exit_code cmd_stat(const struct settings *settings);
enum exit_code cmd_stat_fleet(const struct settings *settings);
enum exit_code cmd_top(const struct settings *settings);
enum exit_code cmd_doctor(const struct settings *settings);
enum exit_code cmd_probes(const struct settings *settings);
enum exit_code cmd_enable(const struct settings *settings);
enum exit_code cmd_disable(const struct settings *settings);
enum exit_code cmd_token(const struct settings *settings);
enum exit_code cmd_stuck(const struct settings *settings);
enum exit_code cmd_forget(const struct settings *settings);

/* Who gets every frame of a recording. */
struct cmd_tap {
	void (*frame)(void *context, const uint8_t *frame, size_t bytes);
	struct out *out;		/* where it writes: flushed in time */
	void *context;
};

/* Where the events go: ops NULL: nowhere. The sink is taken; NULL: the ops create one. */
struct cmd_view {
	const struct sink_ops *ops;
	struct sink *sink;
	const struct ringtail_question *question;	/* what the daemon is to count, if it can; NULL: nothing */
};

/* Of a view that never came to pump_run(), which takes it; NULL is safe. */
void cmd_drop_sink(const struct sink_ops *ops, struct sink *sink);

/* Where all commands write to: stdout. */
struct out *cmd_out(void);

/* What stream, record and the questions share: connect, subscribe, pump. `tap` may be NULL. */
enum exit_code cmd_follow(const struct settings *settings, const struct cmd_view *view,
			  const struct cmd_tap *tap, const char *command);

/* record, and what makes recordings as it does. */
enum exit_code cmd_record_as(const struct settings *settings, const char *command);

/* The same of a file, settings->operand. */
enum exit_code cmd_follow_file(const struct settings *settings, const struct cmd_view *view,
			       const char *command);

/*
 * Prints the error and returns EXIT_FAILED; with the hint to --help, EXIT_USAGE. `text` is what the
 * error's column is a place in; NULL: it has none.
 */
enum exit_code cmd_fail(const struct ringtail_error *error, const char *text);
enum exit_code cmd_usage(const struct ringtail_error *error, const char *command);
enum exit_code cmd_usage_at(const struct ringtail_error *error, const char *command,
			    const char *text);

/* Which of the user's texts the column of a refusal points into; NULL: none. */
const char *cmd_text_of(const struct settings *settings, const struct ringtail_error *error);

/*
 * Ends a command whose output is complete. `err` is the errno of a write that failed, 0: none did.
 * Returns `code`; EXIT_FAILED, after saying why, where it could not be written. A reader who has
 * left has had what it wanted.
 */
enum exit_code cmd_written(int err, enum exit_code code);

/* The same for what printf() wrote to stdout. */
enum exit_code cmd_printed(enum exit_code code);

/* What shows that format; NULL for none. */
const struct sink_ops *cmd_sink(enum format format);

/* What --time and --utc ask of a sink. */
unsigned cmd_sink_flags(const struct settings *settings);

/* Whether SPECs ask for process:map:executable by its name; else it only names stacks. */
bool cmd_shows_maps(const struct settings *settings);

/* Whether colors are wanted on that stream: --color, and by default a terminal's habits. */
bool cmd_color(const struct settings *settings, FILE *to);

#endif
