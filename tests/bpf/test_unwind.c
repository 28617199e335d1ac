/*
 * User stacks of code without frame pointers: this program has none (Makefile), nor has the C library. The witness is
 * the unwinder of the compiler's own library, which reads .eh_frame in this process.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "daemon/source/finder.h"
#include "tests/bpf/harness.h"

#define CALL_GETPPID	(RT_PROBE_SYSCALL_CALL + SYS_getppid)
#define TURNS_MAX	1000

static struct harness harness;
static struct finder finder;

struct stack {
	unsigned frames;
	uint64_t frame[RT_STACK_FRAMES_MAX];
};

static struct stack seen;
static uint32_t looked_at;	/* whose stacks are seen */

/* ---- What is seen ----------------------------------------------------------------------------- */

static void see_call(void *context, uint32_t cpu, const struct ring_item *item)
{
	const struct rt_attachment *stack;

	(void)context;
	(void)cpu;
	if (item->probe != CALL_GETPPID || item->tid != looked_at)
		return;
	stack = harness_attachment(item, 2, RT_ATTACH_USTACK, 0);
	assert_non_null(stack);
	seen.frames = stack->bytes / 8;
	memcpy(seen.frame, stack->data, stack->bytes);
}

/* As the loader does, as long as there are files to be read. */
static void attend(void)
{
	int timeout_ms;

	for (int i = 0; i < TURNS_MAX; i++) {
		struct pollfd asks = { .fd = source_bpf.attention(harness.source, &timeout_ms), .events = POLLIN };
		bool is_last = timeout_ms < 0 || timeout_ms >= 1000;

		poll(&asks, 1, is_last ? 20 : timeout_ms);
		source_bpf.attend(harness.source);
		if (is_last)
			return;
	}
}

static void want_of(uint32_t probe, pid_t pid)
{
	struct source_request request = { .generation = 1, .flags = RT_FLAG_USTACK };

	looked_at = (uint32_t)pid;
	harness_want(&request, probe);
	harness_want_pid(&request, looked_at);
	harness_configure(&harness, &request);
}

static void want(uint32_t probe)
{
	want_of(probe, getpid());
}

#if defined(__x86_64__)

#define out_of_line	__attribute__((noinline, noclone))
#define PROFILE		(RT_PROBE_TIMER + RT_TIMER_PROFILE_99HZ)
#define WAIT_NS		60000000000ull

static struct stack witness;
static volatile uint64_t sink;

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *to)
{
	struct stack *stack = to;

	if (stack->frames < RT_STACK_FRAMES_MAX)
		stack->frame[stack->frames++] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

static out_of_line void take_witness(void)
{
	witness.frames = 0;
	_Unwind_Backtrace(take_frame, &witness);
	sink++;			/* so that it returns here */
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void show(const char *name, const struct stack *stack)
{
	printf("%s:", name);
	for (unsigned i = 0; i < stack->frames; i++)
		printf(" %llx", (unsigned long long)stack->frame[i]);
	printf("\n");
}

/*
 * Both walk out of the function that makes the call: beyond it, they say the same. The witness's first two frames are
 * the witness's own and the function's, ours are that of the call's stub and the function's.
 */
static bool is_as_witnessed(void)
{
	unsigned frames = witness.frames - 2;

	/* The unwinder goes on to the address 0 behind the first function. */
	if (frames && !witness.frame[witness.frames - 1])
		frames--;
	return witness.frames > 4 && seen.frames == frames + 2 &&
	       !memcmp(seen.frame + 2, witness.frame + 2, frames * sizeof(seen.frame[0]));
}

/* Until the stack of the call that `go` makes is the witness's: the first ones come before the tables. */
static void expect_as_witnessed(void (*go)(void))
{
	uint64_t end_ns = now_ns() + WAIT_NS;

	do {
		seen.frames = 0;
		go();
		harness_drain(&harness, see_call, NULL);
		if (is_as_witnessed())
			return;
		attend();
	} while (now_ns() < end_ns);
	show("witness", &witness);
	show("seen", &seen);
	fail_msg("the stacks differ");
}

/* ---- Code ------------------------------------------------------------------------------------- */

static out_of_line long call(void)
{
	take_witness();
	return syscall(SYS_getppid) + (long)sink;
}

static out_of_line long with_a_large_frame(void)
{
	volatile char large[700];

	large[3] = 1;
	return call() + large[3];
}

/* Its frame has no fixed size, so it has a frame pointer of its own. */
static out_of_line long with_a_frame_of_any_size(size_t bytes)
{
	volatile char *any = __builtin_alloca(bytes);

	any[bytes / 2] = 2;
	return with_a_large_frame() + any[bytes / 2];
}

static out_of_line long with_an_aligned_frame(size_t bytes)
{
	volatile long aligned[8] __attribute__((aligned(64)));

	aligned[1] = with_a_frame_of_any_size(bytes);
	return aligned[1] + 1;
}

static int compare(const void *a, const void *b)
{
	sink += (uint64_t)with_an_aligned_frame(*(const unsigned *)a % 90 + 16);
	return *(const int *)a - *(const int *)b;
}

/* Through the C library and back. */
static out_of_line void sort_two(void)
{
	int two[] = { 2, 1 };

	qsort(two, 2, sizeof(two[0]), compare);
	sink += (uint64_t)two[0];
}

static void handle(int number)
{
	(void)number;
	sink += (uint64_t)with_an_aligned_frame(40);
}

static out_of_line void be_signalled(void)
{
	raise(SIGUSR1);
	sink++;
}

static void be_signalled_on_another_stack(void)
{
	static char other[65536];
	const stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };
	const struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };

	assert_int_equal(sigaltstack(&stack, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	be_signalled();
}

/* ---- Tests ------------------------------------------------------------------------------------ */

/* Until tables_are_given_back, each test leaves the tables to the next: to read all files takes two seconds. */

static void stacks_are_those_of_the_compilers_unwinder(void **state)
{
	(void)state;
	want(CALL_GETPPID);
	expect_as_witnessed(sort_two);
	harness_drain(&harness, NULL, NULL);
}

static void a_stack_goes_through_a_signal_handler(void **state)
{
	const struct sigaction action = { .sa_handler = handle };

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	want(CALL_GETPPID);
	expect_as_witnessed(be_signalled);
	expect_as_witnessed(be_signalled_on_another_stack);
	harness_drain(&harness, NULL, NULL);
}

/* Code that no table has, because it is made here. Each calls getppid. */
static const uint8_t made_code[][64] = {
	/* push %rbp; mov %rsp,%rbp; mov $SYS_getppid,%eax; syscall; pop %rbp; ret */
	{ 0x55, 0x48, 0x89, 0xe5, 0xb8, SYS_getppid, 0, 0, 0, 0x0f, 0x05, 0x5d, 0xc3 },
	/* push %rbp; mov $8,%ebp; mov $SYS_getppid,%eax; syscall; pop %rbp; ret */
	{ 0x55, 0xbd, 8, 0, 0, 0, 0xb8, SYS_getppid, 0, 0, 0, 0x0f, 0x05, 0x5d, 0xc3 },
	/* push %rbp; push $64; push %rsp, so that 64 is a return address; mov %rsp,%rbp; mov $SYS_getppid,%eax; syscall; */
	/* pop %rax; pop %rax; pop %rbp; ret */
	{ 0x55, 0x6a, 64, 0x54, 0x48, 0x89, 0xe5, 0xb8, SYS_getppid, 0, 0, 0, 0x0f, 0x05, 0x58, 0x58, 0x5d, 0xc3 },
};

enum made {
	MADE_WITH_POINTER,
	MADE_WITHOUT,
	MADE_FROM_NOWHERE,
};

static uint8_t *made_page;

static void make_code(void)
{
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	memcpy(page, made_code, sizeof(made_code));
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	made_page = page;
}

static enum made made;

static out_of_line void call_made(void)
{
	const uint8_t *code = made_page + made * sizeof(made_code[0]);
	void (*function)(void);

	take_witness();
	memcpy(&function, &code, sizeof(function));
	function();
	sink++;
}

static void code_without_a_table_is_left_by_its_frame_pointer(void **state)
{
	(void)state;
	make_code();
	made = MADE_WITH_POINTER;
	want(CALL_GETPPID);
	expect_as_witnessed(call_made);
	harness_drain(&harness, NULL, NULL);
}

static void expect_end(enum made code, uint64_t end)
{
	made = code;
	seen.frames = 0;
	call_made();
	harness_drain(&harness, see_call, NULL);
	if (seen.frames != 2)
		show("seen", &seen);
	assert_int_equal(seen.frames, 2);
	assert_int_equal(seen.frame[1], RT_STACK_END | end);
}

/* In the code of the test before, once it is known. */
static void what_cannot_be_followed_says_so(void **state)
{
	struct source_stats before, after;

	(void)state;
	made = MADE_WITH_POINTER;
	want(CALL_GETPPID);
	expect_as_witnessed(call_made);
	assert_int_equal(source_bpf.stats(harness.source, &before), 0);
	expect_end(MADE_WITHOUT, RT_STACK_END_TABLE);
	expect_end(MADE_FROM_NOWHERE, RT_STACK_END_TABLE);
	assert_int_equal(source_bpf.stats(harness.source, &after), 0);
	assert_int_equal(after.stacks_cut, before.stacks_cut + 2);
	harness_drain(&harness, NULL, NULL);
}

/* A function of pushes and pops, so that many samples lie where its frame is made and unmade. */
__asm__(".text\n"
	".type short_frames, @function\n"
	"short_frames:\n"
	".cfi_startproc\n"
	"	push %rbx\n"
	".cfi_adjust_cfa_offset 8\n"
	"	push %rbp\n"
	".cfi_adjust_cfa_offset 8\n"
	".cfi_rel_offset rbp, 0\n"
	"	mov %rdi, %rbp\n"
	"	sub $40, %rsp\n"
	".cfi_adjust_cfa_offset 40\n"
	"	mov %rbp, (%rsp)\n"
	"	add $40, %rsp\n"
	".cfi_adjust_cfa_offset -40\n"
	"	pop %rbp\n"
	".cfi_adjust_cfa_offset -8\n"
	".cfi_restore rbp\n"
	"	pop %rbx\n"
	".cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size short_frames, . - short_frames\n");
void short_frames(long number);

struct samples {
	unsigned all, whole, bad;
	struct stack last_bad;
};

static out_of_line void burn(uint64_t ns)
{
	uint64_t end_ns = now_ns() + ns;

	take_witness();
	while (now_ns() < end_ns)
		for (long i = 0; i < 100000; i++)
			short_frames(i);
}

/* Where the sample was, and perhaps who called that; burn(); and what the witness has of its callers. */
static bool is_whole(const struct stack *stack)
{
	unsigned frames = witness.frames - 2 - !witness.frame[witness.frames - 1];

	return stack->frames > frames &&
	       !memcmp(stack->frame + stack->frames - frames, witness.frame + 2, frames * sizeof(stack->frame[0]));
}

static void see_sample(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct samples *samples = context;
	const struct rt_attachment *attached;
	struct stack stack = {0};

	(void)cpu;
	if (item->probe != PROFILE || item->tid != (uint32_t)getpid())
		return;
	attached = harness_attachment(item, 3, RT_ATTACH_USTACK, 0);
	assert_non_null(attached);
	stack.frames = attached->bytes / 8;
	memcpy(stack.frame, attached->data, attached->bytes);
	/* Samples beside burn() are of no use here. */
	if (item->payload[1] - (uintptr_t)short_frames >= 64)
		return;
	samples->all++;
	if (is_whole(&stack)) {
		samples->whole++;
	} else if (samples->whole) {
		samples->bad++;
		samples->last_bad = stack;
	}
}

#define SAMPLES	20u

/* Wherever in the code the timer comes: once the tables are there, every stack is whole. */
static void every_sample_is_whole(void **state)
{
	struct samples samples = {0};
	uint64_t end_ns = now_ns() + WAIT_NS;

	(void)state;
	want(PROFILE);
	while (samples.whole < SAMPLES && now_ns() < end_ns) {
		burn(100000000);
		harness_drain(&harness, see_sample, &samples);
		attend();
	}
	if (samples.bad)
		show("sample", &samples.last_bad);
	show("witness", &witness);
	printf("%u samples, %u whole\n", samples.all, samples.whole);
	assert_true(samples.whole >= SAMPLES);
	assert_int_equal(samples.bad, 0);
	harness_drain(&harness, NULL, NULL);
}

static bool maps_are_of_this_process(void)
{
	seen.frames = 0;
	sort_two();
	harness_drain(&harness, see_call, NULL);
	return is_as_witnessed();
}

/* When nobody wants user stacks, nothing is kept; and all of it comes back when somebody does. */
static void tables_are_given_back(void **state)
{
	struct source_request request = { .generation = 1 };

	(void)state;
	want(CALL_GETPPID);
	expect_as_witnessed(sort_two);
	assert_true(maps_are_of_this_process());
	harness_want(&request, CALL_GETPPID);
	harness_want_pid(&request, (uint32_t)getpid());
	harness_configure(&harness, &request);
	want(CALL_GETPPID);
	assert_false(maps_are_of_this_process());
	expect_as_witnessed(sort_two);
	harness_reset(&harness);
}

/* ---- Files that lie --------------------------------------------------------------------------- */

/* Makes the call through the C library, with a word on its stack that is no address of code. */
__asm__(".text\n"
	".type call_above_a_word, @function\n"
	"call_above_a_word:\n"
	".cfi_startproc\n"
	"	push $64\n"
	".cfi_adjust_cfa_offset 8\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	"	pop %rdi\n"
	".cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size call_above_a_word, . - call_above_a_word\n");
long call_above_a_word(long (*function)(long number, ...), long number);
#define CALL_ABOVE_A_WORD_BYTES	32u

static char c_library[256], bad_library[] = "/tmp/ringtail-unwind-XXXXXX";

/* What all rows begin with: the CFA is rsp + 16, where it was rsp + 8. */
static unsigned spoil(uint8_t *section, size_t bytes)
{
	static const uint8_t good[] = { 0x0c, 7, 8, 0x90, 1 };
	unsigned count = 0;

	for (uint8_t *at = section; (at = memmem(at, (size_t)(section + bytes - at), good, sizeof(good))); count++)
		at[2] = 16;
	return count;
}

static unsigned spoil_file(uint8_t *file)
{
	const Elf64_Ehdr *head = (const void *)file;
	const Elf64_Shdr *section = (const void *)(file + head->e_shoff);
	const char *names = (const char *)file + section[head->e_shstrndx].sh_offset;

	for (unsigned i = 0; i < head->e_shnum; i++)
		if (!strcmp(names + section[i].sh_name, ".eh_frame"))
			return spoil(file + section[i].sh_offset, section[i].sh_size);
	return 0;
}

/* The C library, with its build-id, and with rows that lie. */
static void make_bad_library(void)
{
	int from, to = mkstemp(bad_library);
	struct stat status;
	uint8_t *copy;
	Dl_info info;

	assert_int_not_equal(dladdr(stdout, &info), 0);		/* what is in the C library */
	assert_non_null(realpath(info.dli_fname, c_library));
	from = open(c_library, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(from, &status), 0);
	copy = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, from, 0);
	assert_ptr_not_equal(copy, MAP_FAILED);
	assert_true(spoil_file(copy) > 0);
	assert_int_equal(write(to, copy, (size_t)status.st_size), status.st_size);
	munmap(copy, (size_t)status.st_size);
	close(from);
	close(to);
}

enum lie {
	LIE_MAPPED,		/* beside the C library itself */
	LIE_MOUNTED,		/* where the process's path of the C library leads to */
};

static void begin_lie(enum lie lie)
{
	int fd = open(bad_library, O_RDONLY | O_CLOEXEC);

	if (lie == LIE_MAPPED && mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		_exit(1);
	if (lie == LIE_MOUNTED &&
	    (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	     mount(bad_library, c_library, NULL, MS_BIND, NULL)))
		_exit(1);
}

static struct {
	pid_t pid;		/* 0: there is none */
	int asks, answers;
} liar;

/* Makes the call as often as it gets a byte. */
static _Noreturn void lie_when_asked(enum lie lie, int asks, int answers)
{
	char byte;

	/* The finder ends when nobody has the other end of its socket. */
	close(finder.socket);
	begin_lie(lie);
	while (read(asks, &byte, 1) == 1) {
		call_above_a_word(syscall, SYS_getppid);
		if (write(answers, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static void start_liar(enum lie lie)
{
	int asks[2], answers[2];

	assert_int_equal(pipe(asks), 0);
	assert_int_equal(pipe(answers), 0);
	liar.pid = fork();
	assert_true(liar.pid >= 0);
	if (!liar.pid) {
		close(asks[1]);
		lie_when_asked(lie, asks[0], answers[1]);
	}
	close(asks[0]);
	close(answers[1]);
	liar.asks = asks[1];
	liar.answers = answers[0];
}

/* Its status. */
static int end_liar(void)
{
	int status = 0;

	close(liar.asks);
	close(liar.answers);
	waitpid(liar.pid, &status, 0);
	liar.pid = 0;
	return status;
}

/* After a failure, too. */
static int leave_no_liar(void **state)
{
	(void)state;
	if (liar.pid > 0) {
		kill(liar.pid, SIGKILL);
		end_liar();
	}
	unlink(bad_library);
	return 0;
}

static void ask_liar(void)
{
	char byte = 0;

	seen.frames = 0;
	assert_int_equal(write(liar.asks, &byte, 1), 1);
	assert_int_equal(read(liar.answers, &byte, 1), 1);
	harness_drain(&harness, see_call, NULL);
}

static bool is_through_the_library(void)
{
	return seen.frames > 2 && seen.frame[1] - (uintptr_t)call_above_a_word < CALL_ABOVE_A_WORD_BYTES;
}

/* What a row calls a return address is told only if it is an address of code: what else is on a stack is private. */
static bool is_cut_at_the_word(void)
{
	return seen.frames == 2 && seen.frame[1] == (RT_STACK_END | RT_STACK_END_TABLE);
}

static void expect_of_liar(bool (*is_expected)(void))
{
	uint64_t end_ns = now_ns() + WAIT_NS;

	do {
		ask_liar();
		if (is_expected())
			return;
		attend();
	} while (now_ns() < end_ns);
	show("seen", &seen);
	fail_msg("the liar's stack is another");
}

/* Its own stacks at most, if its own path leads there; and it comes first. */
static void a_file_that_lies_changes_nobody_elses_stacks(void **state)
{
	(void)state;
	make_bad_library();
	for (enum lie lie = LIE_MAPPED; lie <= LIE_MOUNTED; lie++) {
		bool (*is_expected)(void) = lie == LIE_MOUNTED ? is_cut_at_the_word : is_through_the_library;

		start_liar(lie);
		want_of(CALL_GETPPID, liar.pid);
		expect_of_liar(is_expected);
		want(CALL_GETPPID);
		expect_as_witnessed(sort_two);
		want_of(CALL_GETPPID, liar.pid);
		expect_of_liar(is_expected);
		assert_int_equal(end_liar(), 0);
		harness_reset(&harness);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(stacks_are_those_of_the_compilers_unwinder),
	cmocka_unit_test(a_stack_goes_through_a_signal_handler),
	cmocka_unit_test(code_without_a_table_is_left_by_its_frame_pointer),
	cmocka_unit_test(what_cannot_be_followed_says_so),
	cmocka_unit_test(every_sample_is_whole),
	cmocka_unit_test(tables_are_given_back),
	cmocka_unit_test_teardown(a_file_that_lies_changes_nobody_elses_stacks, leave_no_liar),
};

#else

/* On other processors: nothing is read, and stacks are there all the same. */
static void stacks_follow_frame_pointers(void **state)
{
	(void)state;
	want(CALL_GETPPID);
	for (int i = 0; i < 2; i++) {
		seen.frames = 0;
		syscall(SYS_getppid);
		harness_drain(&harness, see_call, NULL);
		assert_true(seen.frames > 0);
		attend();
	}
	harness_reset(&harness);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(stacks_follow_frame_pointers),
};

#endif

int main(void)
{
	struct error error;
	int failed;

	if (finder_start(&finder, NULL, false, &error)) {
		fprintf(stderr, "%s\n", error.what);
		return 1;
	}
	harness_open_finding(&harness, 1 << 20, &finder);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	finder_stop(&finder);
	waitpid(finder.pid, NULL, 0);
	return failed != 0;
}
