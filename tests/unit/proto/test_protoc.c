/*
 * test_protoc: any protobuf tool reads a batch. A message goes through `protoc --decode` and a
 * script that undoes the columns (protoc_decode.py); what it prints is what was encoded. Runs at the
 * root of the tree, where proto/ is.
 */
#include "story.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCRIPT		"tests/unit/proto/protoc_decode.py"
#define SKIPPED		77
#define EVENTS		2000
#define LINE_BYTES	1024

static void fill(struct story *story)
{
	uint64_t state = 88172645463325252ULL, now = story->time_ns;

	story_probe(story, 0x1000, 5, true);
	story_probe(story, 0x1001, 3, true);
	story_probe(story, 0x100, 4, false);
	story_probe(story, 0x101, 0, false);
	for (unsigned i = 0; i < EVENTS; i++) {
		static const uint16_t probe[] = { 0x1000, 0x1000, 0x1001, 0x100, 0x101 };
		uint64_t *field;

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		now += state % 3000;
		if (i % 300 == 0)
			story_loss(story, 1 + state % 5, i % 4, i % 5);
		if (i % 200 == 0)
			story_skip(story, state % 50);
		field = story_event(story, probe[state % 5], state % 7, i % 500 ? now : state);
		for (unsigned k = 0; k < story->probe[probe[state % 5]].fields; k++)
			field[k] = state >> (k * 13 % 61) & (i % 3 ? 0xff : UINT64_MAX);
		if (i % 100 == 0)
			story_string(story, 1, "a \"path\"\n\xff", 10);
	}
	story_skip(story, 12345);
}

static void write_expected(const struct story *story, FILE *file)
{
	for (size_t i = 0; i < story->steps; i++) {
		const struct story_step *step = &story->step[i];

		if (step->kind == STORY_LOSS)
			fprintf(file, "loss %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32 "\n",
				step->seq, step->count, step->stage, step->reason);
		if (step->kind != STORY_EVENT)
			continue;
		fprintf(file, "event %" PRIu64 " %u %" PRIu32 " %" PRIu64, step->seq, step->probe,
			story->thread[step->thread].tid, step->time_ns);
		for (unsigned k = 0; k < story->probe[step->probe].fields; k++)
			fprintf(file, " %" PRIu64, step->field[k]);
		fputc('\n', file);
	}
	fprintf(file, "end %" PRIu64 "\n", story->next_seq);
}

static void write_probes(const struct story *story, FILE *file)
{
	for (unsigned id = 0; id < STORY_PROBE_IDS; id++)
		if (story->probe[id].known)
			fprintf(file, "%u %u %d\n", id, story->probe[id].fields,
				story->probe[id].has_duration);
}

/* Runs the script and keeps what it prints; returns its exit code. */
static int run_script(const char *message_path, const char *probes_path, FILE *got)
{
	char command[LINE_BYTES], line[LINE_BYTES];
	FILE *script;

	snprintf(command, sizeof(command), "exec timeout 60 python3 %s %s %s", SCRIPT, message_path,
		 probes_path);
	script = popen(command, "r");
	assert_non_null(script);
	while (fgets(line, sizeof(line), script))
		fputs(line, got);
	return WEXITSTATUS(pclose(script));
}

static void compare(FILE *expected, FILE *got)
{
	char want[LINE_BYTES], line[LINE_BYTES];
	bool more = true;

	rewind(expected);
	rewind(got);
	while (more) {
		bool wanted = fgets(want, sizeof(want), expected);

		more = fgets(line, sizeof(line), got);
		assert_int_equal(more, wanted);
		if (more)
			assert_string_equal(line, want);
	}
}

static void test_protoc(void **state)
{
	char message_path[] = "/tmp/ringtail-message-XXXXXX";
	char probes_path[] = "/tmp/ringtail-probes-XXXXXX";
	struct batch_encoder *encoder = batch_encoder_create(STORY_PROBE_IDS);
	struct story *story = story_create(1000, 123456789012345);
	FILE *message_file = fdopen(mkstemp(message_path), "wb");
	FILE *probes_file = fdopen(mkstemp(probes_path), "w");
	FILE *expected = tmpfile(), *got = tmpfile();
	const uint8_t *message;
	size_t bytes;
	int code;

	(void)state;
	assert_true(encoder && message_file && probes_file && expected && got);
	fill(story);
	message = story_tell(story, encoder, &bytes);
	assert_int_equal(fwrite(message, 1, bytes, message_file), bytes);
	fclose(message_file);
	write_probes(story, probes_file);
	fclose(probes_file);
	write_expected(story, expected);
	code = run_script(message_path, probes_path, got);
	unlink(message_path);
	unlink(probes_path);
	if (!code)
		compare(expected, got);
	fclose(expected);
	fclose(got);
	batch_encoder_destroy(encoder);
	free(story);
	if (code == SKIPPED)
		skip();
	assert_int_equal(code, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_protoc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
