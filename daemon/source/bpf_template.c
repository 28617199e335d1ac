#include "daemon/source/bpf_template.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/source/bpf_check.h"
#include "daemon/source/bpf_image.h"
#include "daemon/source/bpf_places.h"
#include "kmod/bpf/request.h"

#define FUNCTIONS_MAX		64
#define STORES_INSNS		3	/* of the subprogram that is replaced: two make a number, one exits */
#define WORD_INSNS_MAX		24	/* of one word: eight bytes one by one */
#define BEGIN_INSNS		2	/* what a helper would not leave alone is moved */
#define GENERATED_INSNS_MAX	(BEGIN_INSNS + PROBE_FIELDS_MAX * WORD_INSNS_MAX + 2)
#define LOG_BYTES		4096
#define RETURNS_FOLLOWED	64	/* inside each other, of one thread: MAX_URETPROBE_DEPTH of the kernel */

struct source_bpf_template {
	const struct source_bpf_images *images;
	const struct source_bpf_image *image;
	enum source_bpf_template_of of;
	uint32_t guard;			/* bpf_prog_active in the kernel's types; 0: not to be had */
	uint32_t utask, depth;		/* where task_struct has uprobe_task, and that its depth; 0: not to be had */
	size_t stores;			/* where the subprogram begins that is replaced */
};

static const struct {
	const char *name;
	struct source_bpf_as as;
} usual[] = {
	[TEMPLATE_TRACEPOINT] = {"any_tracepoint", {.type = BPF_PROG_TYPE_TRACEPOINT}},
	[TEMPLATE_RAW] = {"any_raw_tracepoint", {.type = BPF_PROG_TYPE_TRACING, .attach_type = BPF_TRACE_RAW_TP}},
	[TEMPLATE_REFUSED] = {"any_refused", {.type = BPF_PROG_TYPE_RAW_TRACEPOINT}},
	[TEMPLATE_UPROBE] = {"any_uprobe", {.type = BPF_PROG_TYPE_KPROBE, .attach_type = ATTACH_UPROBE_MULTI}},
};

/* A number of 64 bits takes two instructions, half in each. */
static bool is_wide(const struct bpf_insn *insn)
{
	return insn->code == (BPF_LD | BPF_IMM | BPF_DW);
}

static uint64_t wide_number(const struct bpf_insn *insn)
{
	return (uint64_t)(uint32_t)insn[1].imm << 32 | (uint32_t)insn[0].imm;
}

static void set_wide_number(struct bpf_insn *insn, uint64_t number)
{
	insn[0].imm = (int32_t)number;
	insn[1].imm = (int32_t)(number >> 32);
}

static bool is_plain_number(const struct bpf_insn *insn, uint64_t number)
{
	return is_wide(insn) && insn->src_reg == 0 && wide_number(insn) == number;
}

/* ---- Taking it -------------------------------------------------------------------------------- */

static int find_stores(struct source_bpf_template *bpf_template)
{
	const struct source_bpf_image *image = bpf_template->image;

	for (size_t i = 0; i + STORES_INSNS <= image->insns; i++)
		if (is_plain_number(&image->insn[i], MADE_STORES) &&
		    image->insn[i + 2].code == (BPF_JMP | BPF_EXIT)) {
			bpf_template->stores = i;
			return 0;
		}
	return -ENOENT;
}

/* A call of a subprogram, or the number that names one to bpf_loop(). Both say how far away it is. */
static bool names_function(const struct bpf_insn *insn)
{
	return (insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == BPF_PSEUDO_CALL) ||
	       (is_wide(insn) && insn->src_reg == BPF_PSEUDO_FUNC);
}

/* Where a structure has a member, in bytes; 0: it has none of that name. */
static uint32_t find_member(const struct btf *btf, const char *structure, const char *name)
{
	int id = btf__find_by_name_kind(btf, structure, BTF_KIND_STRUCT);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;

	for (unsigned i = 0; type && i < btf_vlen(type); i++)
		if (strcmp(btf__name_by_offset(btf, btf_members(type)[i].name_off), name) == 0)
			return btf_member_bit_offset(type, i) / 8;
	return 0;
}

static void find_guard(struct source_bpf_template *bpf_template, const struct btf *kernel)
{
	int id = btf__find_by_name_kind(kernel, "bpf_prog_active", BTF_KIND_VAR);

	bpf_template->guard = id > 0 ? (uint32_t)id : 0;
	bpf_template->utask = find_member(kernel, "task_struct", "utask");
	bpf_template->depth = find_member(kernel, "uprobe_task", "depth");
}

int source_bpf_template_create(const struct source_bpf_images *images, const struct btf *kernel,
			       enum source_bpf_template_of of, struct source_bpf_template **made,
			       struct error *error)
{
	struct source_bpf_template *bpf_template = calloc(1, sizeof(*bpf_template));
	int err = -ENOMEM;

	if (bpf_template) {
		bpf_template->of = of;
		bpf_template->images = images;
		bpf_template->image = source_bpf_image_find(images, usual[of].name);
		err = bpf_template->image && bpf_template->image->functions <= FUNCTIONS_MAX ?
			find_stores(bpf_template) : -EPROTO;
	}
	if (!err && of == TEMPLATE_REFUSED)
		find_guard(bpf_template, kernel);
	if (err) {
		source_bpf_template_destroy(bpf_template);
		return source_bpf_check_failure(error, -err, "copy the programs of probes");
	}
	*made = bpf_template;
	return 0;
}

void source_bpf_template_destroy(struct source_bpf_template *bpf_template)
{
	free(bpf_template);
}

/* ---- Generating --------------------------------------------------------------------------------- */

enum {
	RECORD = BPF_REG_6,		/* the kernel's record, or the registers */
	PAYLOAD = BPF_REG_7,		/* of ours */
	VALUE = BPF_REG_3,
	PART = BPF_REG_4,
	STACK = BPF_REG_10,
};

struct generated {
	struct bpf_insn insn[GENERATED_INSNS_MAX];
	size_t insns;
};

static void emit(struct generated *to, uint8_t code, uint8_t dst, uint8_t src, int16_t offset,
		 int32_t number)
{
	to->insn[to->insns++] = (struct bpf_insn){
		.code = code, .dst_reg = dst & 15, .src_reg = src & 15, .off = offset, .imm = number,
	};
}

static uint8_t size_code(unsigned bytes)
{
	return bytes == 1 ? BPF_B : bytes == 2 ? BPF_H : bytes == 4 ? BPF_W : BPF_DW;
}

static void emit_load(struct generated *to, uint8_t into, unsigned offset, unsigned bytes)
{
	emit(to, BPF_LDX | BPF_MEM | size_code(bytes), into, RECORD, (int16_t)offset, 0);
}

static void emit_shift(struct generated *to, uint8_t code, uint8_t value, unsigned bits)
{
	emit(to, BPF_ALU64 | code | BPF_K, value, 0, 0, (int32_t)bits);
}

/* The most bytes that one load may take there: the verifier wants them aligned. */
static unsigned load_bytes(unsigned offset, unsigned left)
{
	unsigned bytes = 8;

	while (bytes > left || offset % bytes)
		bytes /= 2;
	return bytes;
}

static void emit_move(struct generated *to, uint8_t into, uint8_t from)
{
	emit(to, BPF_ALU64 | BPF_MOV | BPF_X, into, from, 0, 0);
}

static void emit_add_number(struct generated *to, uint8_t into, int32_t number)
{
	/* Both BPF_ADD and BPF_K are 0: NOLINTNEXTLINE(misc-redundant-expression) */
	emit(to, BPF_ALU64 | BPF_ADD | BPF_K, into, 0, 0, number);
}

/* Reads a program's memory onto the stack, and from there: what is not there now reads as zeros. */
static void emit_memory(struct generated *to, const struct tracepoint_word *word)
{
	emit_load(to, VALUE, word->offset, 8);
	if (word->index != WORD_NO_INDEX) {
		emit_load(to, PART, word->index, 8);
		emit_shift(to, BPF_LSH, PART, word->shift);
		emit(to, BPF_ALU64 | BPF_ADD | BPF_X, VALUE, PART, 0, 0);
	}
	emit_add_number(to, VALUE, word->number);
	emit_move(to, BPF_REG_1, STACK);
	emit_add_number(to, BPF_REG_1, -8);
	emit(to, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, word->bytes);
	emit(to, BPF_ST | BPF_MEM | BPF_DW, STACK, 0, -8, 0);
	emit(to, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_probe_read_user);
	emit(to, BPF_LDX | BPF_MEM | size_code(word->bytes), VALUE, STACK, -8, 0);
}

/* Only the low bytes of a register are what the function was passed, or returns. */
static void emit_cut(struct generated *to, unsigned bytes)
{
	if (bytes < 8) {
		emit_shift(to, BPF_LSH, VALUE, 64 - 8 * bytes);
		emit_shift(to, BPF_RSH, VALUE, 64 - 8 * bytes);
	}
}

/* A pointer that the verifier knows nothing of it lets nobody load; the helper gives it as a number. */
static void emit_raw(struct generated *to, const struct tracepoint_word *word)
{
	bool is_result = word->of == WORD_OF_RESULT_RAW;

	emit_move(to, BPF_REG_1, RECORD);
	if (!is_result)
		emit(to, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, word->number);
	emit_move(to, is_result ? BPF_REG_2 : BPF_REG_3, STACK);
	emit_add_number(to, is_result ? BPF_REG_2 : BPF_REG_3, -8);
	emit(to, BPF_ST | BPF_MEM | BPF_DW, STACK, 0, -8, 0);
	emit(to, BPF_JMP | BPF_CALL, 0, 0, 0, is_result ? BPF_FUNC_get_func_ret : BPF_FUNC_get_func_arg);
	emit(to, BPF_LDX | BPF_MEM | BPF_DW, VALUE, STACK, -8, 0);
}

/* What a pointer that a tracepoint is passed points to, or what a pointer there does. One that is wrong reads as 0. */
static void emit_member(struct generated *to, const struct tracepoint_word *word)
{
	emit_load(to, VALUE, word->offset, 8);
	if (word->index != WORD_NO_INDEX)
		emit(to, BPF_LDX | BPF_MEM | BPF_DW, VALUE, VALUE, (int16_t)word->index, 0);
	if (word->of == WORD_OF_ADDRESS)
		emit_add_number(to, VALUE, word->number);
	else
		emit(to, BPF_LDX | BPF_MEM | size_code(word->bytes), VALUE, VALUE, (int16_t)word->number, 0);
}

static void emit_parts(struct generated *to, const struct tracepoint_word *word)
{
	unsigned done = load_bytes(word->offset, word->bytes);

	emit_load(to, VALUE, word->offset, done);
	while (done < word->bytes) {
		unsigned bytes = load_bytes(word->offset + done, word->bytes - done);

		emit_load(to, PART, word->offset + done, bytes);
		emit_shift(to, BPF_LSH, PART, 8 * done);
		emit(to, BPF_ALU64 | BPF_OR | BPF_X, VALUE, PART, 0, 0);
		done += bytes;
	}
}

static void emit_word(struct generated *to, const struct tracepoint_word *word)
{
	if (word->of == WORD_NUMBER) {
		emit(to, BPF_ALU64 | BPF_MOV | BPF_K, VALUE, 0, 0, word->number);
		if (!word->is_signed)
			emit_cut(to, word->bytes);
	} else if (word->of == WORD_OF_CALL) {
		emit_load(to, VALUE, word->offset, 8);
		if (!word->is_signed)
			emit_cut(to, word->bytes);
	} else if (word->of == WORD_OF_MEMBER || word->of == WORD_OF_ADDRESS) {
		emit_member(to, word);
	} else if (word->of >= WORD_OF_CALL_RAW) {
		emit_raw(to, word);
	} else if (word->of == WORD_OF_MEMORY) {
		emit_memory(to, word);
	} else {
		emit_parts(to, word);
	}
	if (word->is_location)
		emit_shift(to, BPF_RSH, VALUE, 16);
	if (word->is_signed && word->bytes < 8) {
		emit_shift(to, BPF_LSH, VALUE, 64 - 8 * word->bytes);
		emit_shift(to, BPF_ARSH, VALUE, 64 - 8 * word->bytes);
	}
}

static void generate(struct generated *to, const struct tracepoint_plan *plan)
{
	to->insns = 0;
	emit_move(to, RECORD, BPF_REG_1);
	emit_move(to, PAYLOAD, BPF_REG_2);
	for (unsigned i = 0; i < plan->words; i++) {
		if (plan->word[i].bytes)
			emit_word(to, &plan->word[i]);
		else
			emit(to, BPF_ALU64 | BPF_MOV | BPF_K, VALUE, 0, 0, 0);
		emit(to, BPF_STX | BPF_MEM | BPF_DW, PAYLOAD, VALUE, (int16_t)(8 * i), 0);
	}
	emit(to, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0);
	emit(to, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* The guard of this CPU; the kernel knows it by its number in BTF. */
static void generate_guard(struct generated *to, uint32_t guard)
{
	to->insns = 0;
	emit(to, BPF_LD | BPF_IMM | BPF_DW, BPF_REG_1, BPF_PSEUDO_BTF_ID, 0, (int32_t)guard);
	emit(to, 0, 0, 0, 0, 0);
	emit(to, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_this_cpu_ptr);
	emit(to, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_0, BPF_REG_0, 0, 0);
	emit(to, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* Whether the thread's returns are as deep as the kernel follows them. */
static void generate_nested(struct generated *to, uint32_t utask, uint32_t depth)
{
	to->insns = 0;
	emit(to, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_task);
	emit_move(to, BPF_REG_3, BPF_REG_0);
	for (unsigned i = 0; i < 2; i++) {
		emit_add_number(to, BPF_REG_3, (int32_t)(i ? depth : utask));
		emit_move(to, BPF_REG_1, STACK);
		emit_add_number(to, BPF_REG_1, -8);
		emit(to, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, i ? 4 : 8);
		emit(to, BPF_ST | BPF_MEM | BPF_DW, STACK, 0, -8, 0);
		emit(to, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_probe_read_kernel);
		emit(to, BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_3, STACK, -8, 0);
	}
	emit(to, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1);
	emit(to, BPF_JMP | BPF_JGE | BPF_K, BPF_REG_3, 0, 1, RETURNS_FOLLOWED);
	emit(to, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0);
	emit(to, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* ---- A copy ------------------------------------------------------------------------------------- */

/* Where an instruction lies once the subprogram is replaced. */
static size_t moved(const struct source_bpf_template *bpf_template, size_t at, size_t generated)
{
	return at <= bpf_template->stores ? at : at + generated - STORES_INSNS;
}

/* Calls of subprograms are relative, and some go over the one that is replaced by a longer one. */
static void move_calls(const struct source_bpf_template *bpf_template, struct bpf_insn *to,
		       size_t generated)
{
	for (size_t i = 0; i < bpf_template->image->insns; i++) {
		const struct bpf_insn *insn = &bpf_template->image->insn[i];
		size_t target, at;

		if (!names_function(insn))
			continue;
		target = moved(bpf_template, (size_t)((int64_t)i + 1 + insn->imm), generated);
		at = moved(bpf_template, i, generated);
		to[at].imm = (int32_t)((int64_t)target - (int64_t)at - 1);
	}
}

static void set_numbers(struct bpf_insn *insn, size_t insns, uint32_t index,
			const struct tracepoint_plan *plan)
{
	for (size_t i = 0; i + 1 < insns; i++) {
		uint64_t number;

		if (!is_wide(&insn[i]))
			continue;
		number = wide_number(&insn[i]);
		if (insn[i].src_reg == 0 && number == MADE_INDEX)
			set_wide_number(&insn[i], index);
		else if (insn[i].src_reg == 0 && number == MADE_WORDS)
			set_wide_number(&insn[i], plan->words);
		else if (insn[i].src_reg == 0 && number == MADE_OF_KERNEL)
			set_wide_number(&insn[i], plan->of_kernel);
		else if (insn[i].src_reg == 0 && number >= MADE_TEXTS_0 && number <= MADE_TEXTS_3)
			set_wide_number(&insn[i], plan->text[2 * (number - MADE_TEXTS_0)] |
				(uint64_t)plan->text[2 * (number - MADE_TEXTS_0) + 1] << 32);
		i++;
	}
}

/* Refused by the verifier: what it said last is the reason. */
static int refuse(const char *name, int err, char *log, struct error *error)
{
	size_t bytes = strnlen(log, LOG_BYTES - 1);

	log[bytes] = '\0';
	for (size_t i = 0; i < bytes; i++)
		if (log[i] == '\n' || log[i] == '\t')
			log[i] = ' ';
	error_set(error, err, "probe-not-loaded", "the kernel refused the program of %s: %s ... %s",
		  name, strerror(err), bytes > 300 ? log + bytes - 300 : log);
	error_hint(error, err == ENOMEM || err == EMFILE ?
			  "record fewer probes at once, or raise the daemon's limits of memory and files" :
			  "report the text; the other probes work");
	return -err;
}

static int load_one(const struct source_bpf_template *bpf_template, const struct bpf_insn *insn,
		    size_t insns, const struct bpf_prog_load_opts *options, const struct source_bpf_as *as)
{
	struct bpf_prog_load_opts how = *options;

	how.expected_attach_type = as->attach_type;
	how.attach_btf_id = as->btf_id;
	return bpf_prog_load(as->type, usual[bpf_template->of].name, "Dual BSD/GPL", insn, insns, &how);
}

static int load(const struct source_bpf_template *bpf_template, const char *name, const struct bpf_insn *insn,
		size_t insns, size_t generated, const struct source_bpf_as *as, struct error *error)
{
	struct bpf_func_info info[FUNCTIONS_MAX];
	char log[LOG_BYTES] = "";
	const struct source_bpf_image *image = bpf_template->image;
	int types = bpf_template->images->types;
	LIBBPF_OPTS(bpf_prog_load_opts, options, .prog_btf_fd = types >= 0 ? (uint32_t)types : 0,
		    .func_info = info, .func_info_cnt = image->functions,
		    .func_info_rec_size = sizeof(info[0]));
	int program;

	for (unsigned i = 0; i < image->functions; i++)
		info[i] = (struct bpf_func_info){
			.insn_off = (uint32_t)moved(bpf_template, image->function[i].insn_off, generated),
			.type_id = image->function[i].type_id,
		};
	program = load_one(bpf_template, insn, insns, &options, as);
	if (program >= 0)
		return program;
	if (errno == ENOENT && bpf_template->of == TEMPLATE_REFUSED)
		return -ENOENT;
	/* The log of a program that passes would only take time. */
	options.log_level = 1;
	options.log_buf = log;
	options.log_size = sizeof(log);
	program = load_one(bpf_template, insn, insns, &options, as);
	return program >= 0 ? program : refuse(name, errno, log, error);
}

/* What takes the replaced subprogram's place; false: this kernel has not what it looks at. */
static bool generate_for(struct source_bpf_template *bpf_template, const struct tracepoint_plan *plan,
			 const struct source_bpf_as *as, struct generated *to)
{
	if (bpf_template->of != TEMPLATE_REFUSED)
		generate(to, plan);
	else if (as->counts_nested && bpf_template->utask && bpf_template->depth)
		generate_nested(to, bpf_template->utask, bpf_template->depth);
	else if (!as->counts_nested && bpf_template->guard)
		generate_guard(to, bpf_template->guard);
	else
		return false;
	return true;
}

int source_bpf_template_load(struct source_bpf_template *bpf_template, const char *name,
			     uint32_t index, const struct tracepoint_plan *plan,
			     const struct source_bpf_as *as, struct error *error)
{
	size_t insns = bpf_template->image->insns, before = bpf_template->stores;
	size_t after = insns - before - STORES_INSNS;
	struct generated generated;
	struct bpf_insn *insn;
	int program;

	if (!as)
		as = &usual[bpf_template->of].as;
	if (!generate_for(bpf_template, plan, as, &generated))
		return -ENOENT;
	insn = malloc((before + generated.insns + after) * sizeof(*insn));
	if (!insn)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for the program of %s",
				 name);
	memcpy(insn, bpf_template->image->insn, before * sizeof(*insn));
	memcpy(insn + before, generated.insn, generated.insns * sizeof(*insn));
	memcpy(insn + before + generated.insns, bpf_template->image->insn + before + STORES_INSNS,
	       after * sizeof(*insn));
	insns = before + generated.insns + after;
	move_calls(bpf_template, insn, generated.insns);
	set_numbers(insn, insns, index, plan);
	program = load(bpf_template, name, insn, insns, generated.insns, as, error);
	free(insn);
	/* Not tried again for each of many. */
	if (program == -ENOENT && !as->btf_id)
		bpf_template->guard = 0;
	return program;
}
