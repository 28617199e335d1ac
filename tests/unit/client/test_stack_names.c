/*
 * test_stack_names: where the addresses of a stack lie, by the maps that were told of, and whose functions those are.
 * The host is another one: no process of it is looked for here.
 */
#include "tests/unit/client/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "client/cli/stack_names.h"
#include "client/lib/limits.h"
#include "kmod/uapi/ringtail.h"
#include "query/elf_symbols.h"

#define PID	7u

static const struct ringtail_host host = {.boot_id = "another machine"};
static const struct ringtail_probe map_probe = {.spec = MAP_SPEC, .fields = MAP_FIELDS};
static const uint8_t no_build_id[24], a_build_id[24] = "one program", another_build_id[24] = "another one";
static struct stack_names *names;

static int setup(void **state)
{
	(void)state;
	unsetenv("DEBUGINFOD_URLS");
	names = stack_names_create(&host);
	return !names;
}

static int teardown(void **state)
{
	(void)state;
	stack_names_destroy(names);
	return 0;
}

struct map {
	uint32_t pid;
	uint64_t start, bytes, offset;
	const char *path, *more;
	const uint8_t *build_id;
	uint64_t inode;
};

static bool learn(const struct map *map)
{
	uint64_t value[MAP_FIELDS] = {map->start, map->bytes, map->offset, 0, 0, 0, 1, map->inode};
	const char *const text[] = {map->path ? map->path : "", map->more ? map->more : ""};
	struct ringtail_attachment attachment[2];
	struct ringtail_item event = {
		.kind = RINGTAIL_EVENT, .probe = &map_probe, .value = value, .thread.pid = map->pid,
		.attachment = attachment, .attachments = map->more ? 2 : 1,
	};

	memcpy(value + 3, map->build_id ? map->build_id : no_build_id, 24);
	for (unsigned i = 0; i < 2; i++)
		attachment[i] = (struct ringtail_attachment){
			.kind = RINGTAIL_ATTACHED_STRING, .field = 8 + i, .text = (const uint8_t *)text[i],
			.text_bytes = strlen(text[i]),
		};
	return stack_names_learn(names, &event);
}

/* Frame i of a stack that has that address there. */
static struct code_place place_of(uint32_t pid, uint64_t address, unsigned i)
{
	uint64_t frame[2] = {0};
	struct code_place place;

	frame[i] = address;
	stack_names_find(names, RINGTAIL_ATTACHED_USTACK, pid, frame, i, &place);
	return place;
}

#define assert_at(pid, address, file, at) do { \
	struct code_place place_ = place_of(pid, address, 0); \
	assert_non_null(place_.path); \
	assert_string_equal(place_.path, file); \
	assert_int_equal(place_.file_offset, at); \
} while (0)

#define assert_nowhere(pid, address) assert_null(place_of(pid, address, 0).path)

static void an_address_lies_in_the_map_around_it(void **state)
{
	(void)state;
	assert_true(learn(&(struct map){PID, 0x1000, 0x100, 0x500, "/bin/no such program", NULL, a_build_id, 1}));
	assert_true(learn(&(struct map){PID, 0x1100, 0x100, 0, "/lib/no such library", NULL, NULL, 2}));
	assert_nowhere(PID, 0xfff);
	assert_at(PID, 0x1000, "/bin/no such program", 0x500);
	assert_at(PID, 0x10ff, "/bin/no such program", 0x5ff);
	assert_at(PID, 0x1100, "/lib/no such library", 0);
	assert_at(PID, 0x11ff, "/lib/no such library", 0xff);
	assert_nowhere(PID, 0x1200);
	assert_nowhere(PID + 1, 0x1000);
	assert_string_equal(place_of(PID, 0x1000, 0).build_id, "6f6e652070726f6772616d000000000000000000");
	assert_string_equal(place_of(PID, 0x1100, 0).build_id, "");
}

/* It points behind the call, which may be the last that the map has. */
static void a_return_address_is_of_the_call_before_it(void **state)
{
	(void)state;
	learn(&(struct map){PID, 0x1000, 0x100, 0, "/first", NULL, NULL, 1});
	learn(&(struct map){PID, 0x1100, 0x100, 0, "/second", NULL, NULL, 2});
	assert_string_equal(place_of(PID, 0x1100, 0).path, "/second");
	assert_string_equal(place_of(PID, 0x1100, 1).path, "/first");
	assert_int_equal(place_of(PID, 0x1100, 1).file_offset, 0x100);
	assert_null(place_of(PID, 0x1000, 1).path);
}

static void a_map_takes_the_place_of_those_below_it(void **state)
{
	(void)state;
	learn(&(struct map){PID, 0x1000, 0x100, 0, "/before", NULL, NULL, 1});
	learn(&(struct map){PID, 0x1100, 0x100, 0, "/beside", NULL, NULL, 2});
	learn(&(struct map){PID, 0x10ff, 1, 0, "/above", NULL, NULL, 3});
	assert_at(PID, 0x10ff, "/above", 0);
	assert_nowhere(PID, 0x1000);
	assert_at(PID, 0x1100, "/beside", 0);
	learn(&(struct map){PID, 0x11ff, 0x100, 0, "/behind", NULL, NULL, 4});
	assert_nowhere(PID, 0x1100);
	/* One that begins before it lies over it, too. */
	learn(&(struct map){PID, 0x2000, 0x100, 0, "/old", NULL, NULL, 5});
	learn(&(struct map){PID, 0x1f80, 0x100, 0, "/new", NULL, NULL, 6});
	assert_at(PID, 0x207f, "/new", 0xff);
	assert_nowhere(PID, 0x20ff);
	learn(&(struct map){PID, 0x1f00, 0x80, 0, "/just before", NULL, NULL, 7});
	assert_at(PID, 0x1f80, "/new", 0);
}

/* All have the same low bits of their number. */
static void processes_with_alike_numbers_are_known_beside_each_other(void **state)
{
	(void)state;
	learn(&(struct map){PID, 0x1000, 0x100, 0, "/one", NULL, NULL, 1});
	learn(&(struct map){PID + PROCESSES_NAMED_MAX, 0x5000, 0x100, 0, "/other", NULL, NULL, 2});
	assert_at(PID, 0x1000, "/one", 0);
	assert_at(PID + PROCESSES_NAMED_MAX, 0x5000, "/other", 0);
	assert_nowhere(PID, 0x5000);
	assert_nowhere(PID + PROCESSES_NAMED_MAX, 0x1000);
}

static void of_too_many_alike_the_one_heard_of_longest_ago_goes(void **state)
{
	uint32_t pid = PID;

	(void)state;
	for (unsigned i = 0; i < 16; i++, pid += PROCESSES_NAMED_MAX)
		learn(&(struct map){pid, 0x1000, 0x100, 0, "/one of them", NULL, NULL, 1});
	learn(&(struct map){PID, 0x1000, 0x100, 0, "/again", NULL, NULL, 2});
	learn(&(struct map){pid, 0x5000, 0x100, 0, "/one too many", NULL, NULL, 3});
	assert_at(PID, 0x1000, "/again", 0);
	assert_at(pid, 0x5000, "/one too many", 0);
	assert_nowhere(pid, 0x1000);
	assert_nowhere(PID + PROCESSES_NAMED_MAX, 0x1000);
	assert_at(PID + 2 * PROCESSES_NAMED_MAX, 0x1000, "/one of them", 0);
}

/* No process has the number 0, which a daemon may say none the less. */
static void number_0_is_a_number_like_others(void **state)
{
	(void)state;
	learn(&(struct map){0, 0x1000, 0x100, 0, "/nobody", NULL, NULL, 1});
	assert_at(0, 0x1000, "/nobody", 0);
	assert_nowhere(PID, 0x1000);
}

static void the_oldest_of_too_many_maps_goes(void **state)
{
	(void)state;
	for (uint64_t i = 0; i <= PROCESS_MAPS_MAX; i++)
		learn(&(struct map){PID, 0x1000 + 0x100 * i, 0x100, i, "/file", NULL, NULL, 1});
	assert_nowhere(PID, 0x1000);
	assert_at(PID, 0x1100, "/file", 1);
	assert_at(PID, 0x1000 + 0x100 * PROCESS_MAPS_MAX, "/file", PROCESS_MAPS_MAX);
}

static void a_long_path_comes_in_two_pieces(void **state)
{
	static char first[200], second[100], whole[300];

	(void)state;
	memset(first, 'a', 199);
	memset(second, 'b', 56);
	snprintf(whole, sizeof(whole), "%s%s", first, second);
	learn(&(struct map){PID, 0x1000, 0x100, 0, first, second, NULL, 1});
	assert_at(PID, 0x1000, whole, 0);
	/* What finds no room is left out. */
	memset(second, 'b', 58);
	learn(&(struct map){PID, 0x1000, 0x100, 0, first, second, NULL, 2});
	assert_at(PID, 0x1000, first, 0);
}

/* The same path is another file, if its build-id is, or if it has none and another inode. */
static void files_are_told_apart(void **state)
{
	static const struct map map[] = {
		{PID, 0x1000, 0x100, 0, "/file", NULL, a_build_id, 1},
		{PID, 0x2000, 0x100, 0, "/file", NULL, another_build_id, 1},
		{PID, 0x3000, 0x100, 0, "/file", NULL, NULL, 1},
		{PID, 0x4000, 0x100, 0, "/other", NULL, a_build_id, 1},
	};
	static const char *const path[] = {"/file", "/file", "/file", "/other"};
	static const char *const build_id[] = {
		"6f6e652070726f6772616d000000000000000000", "616e6f74686572206f6e65000000000000000000", "",
		"6f6e652070726f6772616d000000000000000000",
	};

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		learn(&map[i]);
	for (unsigned i = 0; i < 4; i++) {
		assert_at(PID, map[i].start, path[i], 0);
		assert_string_equal(place_of(PID, map[i].start, 0).build_id, build_id[i]);
	}
}

static void other_events_are_no_maps(void **state)
{
	static const struct ringtail_probe fewer = {.spec = MAP_SPEC, .fields = MAP_FIELDS - 1};
	static const struct ringtail_probe other = {.spec = "process:map:other", .fields = MAP_FIELDS};

	(void)state;
	assert_false(stack_names_learn(names, &(struct ringtail_item){.probe = &fewer}));
	assert_false(stack_names_learn(names, &(struct ringtail_item){.probe = &other}));
}

/* This program's own file: what its functions are called is believed of a file with its build-id alone. */
static void functions_are_of_the_file_with_that_build_id(void **state)
{
	uint8_t build_id[24] = {0}, wrong[24];
	struct code_place place;
	struct elf_symbols *elf;
	struct stat about;
	uint64_t at = 0;
	int fd = open("/proc/self/exe", O_RDONLY);

	(void)state;
	elf = elf_symbols_load(fd);
	close(fd);
	assert_non_null(elf);
	memcpy(build_id, elf_symbols_build_id(elf), 20);
	if (!memcmp(build_id, no_build_id, 8))
		fail_msg("this program was linked without a build-id");
	for (size_t i = 0; i < elf_symbols_functions(elf) && !at; i++) {
		struct elf_function function = elf_symbols_function(elf, i);

		if (!strcmp(function.name, "main"))
			assert_true(elf_symbols_offset(elf, function.address, &at));
	}
	elf_symbols_destroy(elf);
	assert_true(at > 0);
	memcpy(wrong, build_id, sizeof(wrong));
	wrong[19] ^= 1;
	learn(&(struct map){PID, 0x1000, 0x100, at, "/proc/self/exe", NULL, wrong, 1});
	assert_null(place_of(PID, 0x1001, 0).name);
	/* Of one without, the inode tells, where that is of this machine. */
	assert_int_equal(stat("/proc/self/exe", &about), 0);
	learn(&(struct map){PID, 0x1000, 0x100, at, "/proc/self/exe", NULL, NULL, about.st_ino});
	assert_null(place_of(PID, 0x1001, 0).name);
	learn(&(struct map){PID, 0x1000, 0x100, at, "/proc/self/exe", NULL, build_id, 1});
	place = place_of(PID, 0x1001, 0);
	assert_non_null(place.name);
	assert_string_equal(place.name, "main");
	assert_int_equal(place.offset, 1);
	/* A return address is told as it is, and named by the call before it. */
	assert_int_equal(place_of(PID, 0x1001, 1).offset, 1);
	assert_string_equal(place_of(PID, 0x1001, 1).name, "main");
}

static void assert_end(uint64_t frame, const char *text)
{
	struct code_place place = place_of(PID, frame, 1);

	assert_null(place.path);
	if (!text) {
		assert_null(place.name);
		return;
	}
	assert_non_null(place.name);
	assert_string_equal(place.name, text);
	assert_int_equal(place.offset, 0);
}

static void a_stack_that_could_not_be_followed_tells_why(void **state)
{
	(void)state;
	assert_true(learn(&(struct map){.pid = PID, .start = 0, .bytes = UINT64_MAX, .path = "/everywhere"}));
	assert_int_equal(RINGTAIL_STACK_END, RT_STACK_END);
	assert_int_equal(RINGTAIL_STACK_END_MEMORY, RT_STACK_END_MEMORY);
	assert_end(RINGTAIL_STACK_END | RINGTAIL_STACK_END_TABLE, "[could not unwind: no table for this code]");
	assert_end(RINGTAIL_STACK_END | RINGTAIL_STACK_END_RULE, "[could not unwind: no rule for this code]");
	assert_end(RINGTAIL_STACK_END | RINGTAIL_STACK_END_MEMORY, "[could not unwind: the stack cannot be read]");
	assert_non_null(place_of(PID, RINGTAIL_STACK_END | RT_STACK_ENDS, 1).path);
	assert_non_null(place_of(PID, RINGTAIL_STACK_END_TABLE + 1, 1).path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_address_lies_in_the_map_around_it, setup, teardown),
		cmocka_unit_test_setup_teardown(a_return_address_is_of_the_call_before_it, setup, teardown),
		cmocka_unit_test_setup_teardown(a_map_takes_the_place_of_those_below_it, setup, teardown),
		cmocka_unit_test_setup_teardown(processes_with_alike_numbers_are_known_beside_each_other, setup, teardown),
		cmocka_unit_test_setup_teardown(of_too_many_alike_the_one_heard_of_longest_ago_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(number_0_is_a_number_like_others, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_of_too_many_maps_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_path_comes_in_two_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(files_are_told_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(other_events_are_no_maps, setup, teardown),
		cmocka_unit_test_setup_teardown(functions_are_of_the_file_with_that_build_id, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stack_that_could_not_be_followed_tells_why, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
