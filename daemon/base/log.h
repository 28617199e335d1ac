/*
 * log: the daemon's messages for people: to the journal if stderr leads there, else to stderr.
 *
 * Every message has a stable code, what happened, and what to do. Each code may log LOG_BURST messages in
 * LOG_WINDOW_NS; the others are counted, and the count is logged. log_always() is not limited. Any thread.
 */
#ifndef RINGTAIL_DAEMON_BASE_LOG_H
#define RINGTAIL_DAEMON_BASE_LOG_H

#include <stdint.h>

#include "query/error.h"

#define LOG_BURST	10
#define LOG_WINDOW_NS	10000000000ull
#define LOG_CODES_MAX	256	/* codes that are counted apart; more share one count */
#define LOG_CODE_BYTES	48	/* of a code; two longer codes that begin alike count as one */
#define LOG_TEXT_BYTES	1200	/* an error's what and hint */

/* The order of the option log-level. */
enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/* Where messages go, and what the time is. Borrowed until replaced. */
struct log_sink {
	void (*write)(enum log_level level, const char *code, const char *text);
	uint64_t (*now_ns)(void);
};

/* Before it is called, messages up to LOG_LEVEL_INFO go to where they would with it. */
void log_open(enum log_level level);

/* Logs how many lines were left out and not yet reported. The last call, when no other thread logs. */
void log_close(void);

/* Replaces the journal and stderr; NULL: back to them. For tests. */
void log_set_sink(const struct log_sink *sink);

__attribute__((format(printf, 3, 4)))
void log_write(enum log_level level, const char *code, const char *format, ...);

/* The same, however much that code has said: for what must not be pushed out by the like of it. */
__attribute__((format(printf, 3, 4)))
void log_always(enum log_level level, const char *code, const char *format, ...);

#define log_error(code, ...)	log_write(LOG_LEVEL_ERROR, code, __VA_ARGS__)
#define log_warn(code, ...)	log_write(LOG_LEVEL_WARNING, code, __VA_ARGS__)
#define log_info(code, ...)	log_write(LOG_LEVEL_INFO, code, __VA_ARGS__)
#define log_debug(code, ...)	log_write(LOG_LEVEL_DEBUG, code, __VA_ARGS__)

/* An error as one message: what, then the hint. */
void log_failure(enum log_level level, const struct error *error);

#endif
