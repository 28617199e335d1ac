/* log: what reaches the sink, at which level, how often, and in which form on stderr. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/log.h"

static struct {
	unsigned messages;
	enum log_level level;
	char code[64];
	char text[LOG_TEXT_BYTES];
	uint64_t now_ns;
} heard;

static void hear(enum log_level level, const char *code, const char *text)
{
	heard.messages++;
	heard.level = level;
	snprintf(heard.code, sizeof(heard.code), "%s", code);
	snprintf(heard.text, sizeof(heard.text), "%s", text);
}

static uint64_t now_ns(void)
{
	return heard.now_ns;
}

static const struct log_sink sink = { hear, now_ns };

static int set_up(void **state)
{
	(void)state;
	memset(&heard, 0, sizeof(heard));
	log_open(LOG_LEVEL_INFO);
	log_set_sink(&sink);
	return 0;
}

static void test_levels(void **state)
{
	(void)state;
	log_error("disk-full", "%s has %d bytes left", "/var", 0);
	assert_int_equal(heard.messages, 1);
	assert_int_equal(heard.level, LOG_LEVEL_ERROR);
	assert_string_equal(heard.code, "disk-full");
	assert_string_equal(heard.text, "/var has 0 bytes left");
	log_warn("warned", "x");
	log_info("told", "x");
	assert_int_equal(heard.messages, 3);
	log_debug("whispered", "x");
	assert_int_equal(heard.messages, 3);

	log_open(LOG_LEVEL_ERROR);
	log_set_sink(&sink);
	log_warn("warned", "x");
	assert_int_equal(heard.messages, 3);
	log_open(LOG_LEVEL_DEBUG);
	log_set_sink(&sink);
	log_debug("whispered", "x");
	assert_int_equal(heard.messages, 4);
}

static void test_failure(void **state)
{
	struct error error;

	(void)state;
	error_set(&error, EADDRINUSE, "listen-busy", "port %d is in use", 7117);
	log_failure(LOG_LEVEL_ERROR, &error);
	assert_string_equal(heard.text, "port 7117 is in use");
	error_hint(&error, "stop the other one");
	log_failure(LOG_LEVEL_ERROR, &error);
	assert_string_equal(heard.text, "port 7117 is in use; stop the other one");
	assert_string_equal(heard.code, "listen-busy");
}

static void test_rate(void **state)
{
	(void)state;
	for (int i = 0; i < LOG_BURST + 25; i++)
		log_warn("chatter", "message %d", i);
	assert_int_equal(heard.messages, LOG_BURST);
	log_warn("other", "is not held back");
	assert_int_equal(heard.messages, LOG_BURST + 1);
	log_always(LOG_LEVEL_DEBUG, "chatter", "nobody wants");
	log_always(LOG_LEVEL_WARNING, "chatter", "never held back, and not counted");
	assert_int_equal(heard.messages, LOG_BURST + 2);
	heard.messages--;

	heard.now_ns += LOG_WINDOW_NS - 1;
	log_warn("chatter", "still too soon");
	assert_int_equal(heard.messages, LOG_BURST + 1);
	heard.now_ns += 1;
	log_error("chatter", "again");
	assert_int_equal(heard.messages, LOG_BURST + 3);	/* the count, then the message */
	assert_string_equal(heard.text, "again");

	for (int i = 0; i < LOG_BURST + 3; i++)
		log_warn("chatter", "message %d", i);
	heard.messages = 0;
	log_close();
	assert_int_equal(heard.messages, 1);
	assert_string_equal(heard.text, "4 more messages like this were left out");
	assert_int_equal(heard.level, LOG_LEVEL_WARNING);
	log_close();
	assert_int_equal(heard.messages, 1);
}

/* Codes beyond the table share one count, and none is lost or written past it. */
static void test_more_codes_than_room(void **state)
{
	static char code[LOG_CODES_MAX + 50][16];

	(void)state;
	for (unsigned i = 0; i < LOG_CODES_MAX + 50; i++) {
		snprintf(code[i], sizeof(code[i]), "code-%u", i);
		log_info(code[i], "x");
	}
	assert_int_equal(heard.messages, LOG_CODES_MAX - 1 + LOG_BURST);
}

static void test_control_characters(void **state)
{
	(void)state;
	log_info("peer", "a\nringtaild: error: b\x1b[31m\x7f\t\xc3\xa9");
	assert_string_equal(heard.text, "a?ringtaild: error: b?[31m??\xc3\xa9");
}

/* Text that was written to fd 2 while `speak` ran. */
static void capture_stderr(void (*speak)(void), char *text, size_t bytes, const char *journal)
{
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO);
	struct stat st;
	char stream[64];
	size_t n;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	dup2(fileno(file), STDERR_FILENO);
	unsetenv("JOURNAL_STREAM");
	if (journal) {
		snprintf(stream, sizeof(stream), journal, (unsigned long long)st.st_dev,
			 (unsigned long long)st.st_ino);
		setenv("JOURNAL_STREAM", stream, 1);
	}
	log_open(LOG_LEVEL_INFO);
	speak();
	dup2(saved, STDERR_FILENO);
	close(saved);
	unsetenv("JOURNAL_STREAM");
	rewind(file);
	n = fread(text, 1, bytes - 1, file);
	text[n] = '\0';
	fclose(file);
}

static void speak_short(void)
{
	log_warn("disk-full", "what to do: %s", "delete");
}

static void speak_long(void)
{
	char text[2 * LOG_TEXT_BYTES];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_error("long", "%s", text);
}

static void test_stderr(void **state)
{
	char text[4 * LOG_TEXT_BYTES];

	(void)state;
	capture_stderr(speak_short, text, sizeof(text), NULL);
	assert_string_equal(text, "ringtaild: warning: [disk-full] what to do: delete\n");
	capture_stderr(speak_short, text, sizeof(text), "%llu5:%llu");
	assert_string_equal(text, "ringtaild: warning: [disk-full] what to do: delete\n");
	capture_stderr(speak_short, text, sizeof(text), "nonsense");
	assert_string_equal(text, "ringtaild: warning: [disk-full] what to do: delete\n");
	capture_stderr(speak_short, text, sizeof(text), "%llu:%llu");
	assert_string_equal(text, "");	/* it went to the journal, if there is one */
	capture_stderr(speak_long, text, sizeof(text), NULL);
	assert_int_equal(strlen(text), strlen("ringtaild: error: [long] \n") + LOG_TEXT_BYTES - 1);
	assert_int_equal(text[strlen(text) - 1], '\n');
}

#define THREADS		4
#define MESSAGES	1000

static void *chatter(void *code)
{
	for (int i = 0; i < MESSAGES; i++)
		log_info((const char *)code, "message %d", i);
	return NULL;
}

static void test_threads(void **state)
{
	static const char *const codes[THREADS] = { "a", "b", "a", "b" };
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, chatter, (void *)codes[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(heard.messages, 2 * LOG_BURST);
	log_close();
	assert_int_equal(heard.messages, 2 * LOG_BURST + 2);
	assert_string_equal(heard.text, "1990 more messages like this were left out");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_levels, set_up),
		cmocka_unit_test_setup(test_failure, set_up),
		cmocka_unit_test_setup(test_rate, set_up),
		cmocka_unit_test_setup(test_more_codes_than_room, set_up),
		cmocka_unit_test_setup(test_control_characters, set_up),
		cmocka_unit_test_setup(test_stderr, set_up),
		cmocka_unit_test_setup(test_threads, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
