#include "daemon/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION	/* the code says where */
#include <systemd/sd-journal.h>

#include "query/visible.h"

static const struct level {
	const char *name;
	int priority;
} levels[] = {
	[LOG_LEVEL_ERROR] = { "error", LOG_ERR },
	[LOG_LEVEL_WARNING] = { "warning", LOG_WARNING },
	[LOG_LEVEL_INFO] = { "info", LOG_INFO },
	[LOG_LEVEL_DEBUG] = { "debug", LOG_DEBUG },
};

/* How often a code has spoken in its window. The last one stands for all that found no room. */
struct talker {
	char code[LOG_CODE_BYTES];
	enum log_level level;
	uint64_t window_ns;	/* when the window began */
	unsigned said;
	uint64_t suppressed;
};

static _Atomic enum log_level level_max = LOG_LEVEL_INFO;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of everything below */
static struct talker talkers[LOG_CODES_MAX];
static const struct log_sink *sink_set;

/* ---- Sinks ----------------------------------------------------------------------------------- */

/* Whether stderr is the stream that systemd named: it may have been redirected since. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

/* One write(2) for each line, so that those of two processes do not mix. */
static void write_stderr(enum log_level level, const char *code, const char *text)
{
	char line[LOG_TEXT_BYTES + 128];
	int bytes = snprintf(line, sizeof(line), "ringtaild: %s: [%s] %s\n", levels[level].name,
			     code, text);

	if (bytes >= (int)sizeof(line)) {
		bytes = sizeof(line) - 1;
		line[bytes - 1] = '\n';
	}
	/* Nobody can be told that telling failed. */
	if (write(STDERR_FILENO, line, bytes) < 0)
		return;
}

static void write_journal(enum log_level level, const char *code, const char *text)
{
	if (sd_journal_send("MESSAGE=[%s] %s", code, text, "PRIORITY=%d", levels[level].priority,
			    "CODE=%s", code, "SYSLOG_IDENTIFIER=ringtaild", NULL) < 0)
		write_stderr(level, code, text);
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static const struct log_sink sink_stderr = { write_stderr, monotonic_ns };
static const struct log_sink sink_journal = { write_journal, monotonic_ns };

static const struct log_sink *sink(void)
{
	if (!sink_set)
		sink_set = stderr_is_journal() ? &sink_journal : &sink_stderr;
	return sink_set;
}

void log_set_sink(const struct log_sink *replacement)
{
	pthread_mutex_lock(&lock);
	sink_set = replacement;
	memset(talkers, 0, sizeof(talkers));
	pthread_mutex_unlock(&lock);
}

/* ---- Rate ------------------------------------------------------------------------------------ */

static struct talker *find_talker(const char *code)
{
	unsigned i = 0;

	while (i < LOG_CODES_MAX - 1 && talkers[i].code[0] &&
	       strncmp(talkers[i].code, code, LOG_CODE_BYTES - 1))
		i++;
	if (!talkers[i].code[0])
		snprintf(talkers[i].code, LOG_CODE_BYTES, "%s", code);
	return &talkers[i];
}

static void tell_suppressed(struct talker *talker)
{
	char text[80];

	if (!talker->suppressed)
		return;
	snprintf(text, sizeof(text), "%llu more messages like this were left out",
		 (unsigned long long)talker->suppressed);
	sink()->write(talker->level, talker->code, text);
	talker->suppressed = 0;
}

/* Whether the code may speak now; what it kept to itself in the last window comes first. */
static bool may_speak(struct talker *talker, enum log_level level)
{
	uint64_t now = sink()->now_ns();

	if (!talker->said || now - talker->window_ns >= LOG_WINDOW_NS) {
		tell_suppressed(talker);
		talker->window_ns = now;
		talker->said = 0;
	}
	talker->level = level;
	if (talker->said == LOG_BURST) {
		talker->suppressed++;
		return false;
	}
	talker->said++;
	return true;
}

/* ---- Speaking -------------------------------------------------------------------------------- */

void log_open(enum log_level level)
{
	atomic_store_explicit(&level_max, level, memory_order_relaxed);
	log_set_sink(NULL);
}

void log_close(void)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < LOG_CODES_MAX && talkers[i].code[0]; i++)
		tell_suppressed(&talkers[i]);
	pthread_mutex_unlock(&lock);
}

static bool is_wanted(enum log_level level)
{
	return level <= atomic_load_explicit(&level_max, memory_order_relaxed);
}

static void speak(bool always, enum log_level level, const char *code, const char *format,
		  va_list args)
{
	char text[LOG_TEXT_BYTES];

	vsnprintf(text, sizeof(text), format, args);
	visible_replace(text);		/* a peer's words must not start a line of ours, nor do worse */
	pthread_mutex_lock(&lock);
	if (always || may_speak(find_talker(code), level))
		sink()->write(level, code, text);
	pthread_mutex_unlock(&lock);
}

void log_write(enum log_level level, const char *code, const char *format, ...)
{
	va_list args;

	if (!is_wanted(level))
		return;
	va_start(args, format);
	speak(false, level, code, format, args);
	va_end(args);
}

void log_always(enum log_level level, const char *code, const char *format, ...)
{
	va_list args;

	if (!is_wanted(level))
		return;
	va_start(args, format);
	speak(true, level, code, format, args);
	va_end(args);
}

void log_failure(enum log_level level, const struct error *error)
{
	if (error->hint[0])
		log_write(level, error->code, "%s; %s", error->what, error->hint);
	else
		log_write(level, error->code, "%s", error->what);
}
