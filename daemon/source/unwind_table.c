#include "daemon/source/unwind_table.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"

/* ---- Bytes ------------------------------------------------------------------------------------ */

/* What is left to be read; `bad` stays once something was not there. */
struct bytes {
	const uint8_t *at, *end;
	bool bad;
};

static const uint8_t *take(struct bytes *bytes, uint64_t count)
{
	const uint8_t *at = bytes->at;

	if (bytes->bad || count > (uint64_t)(bytes->end - at)) {
		bytes->bad = true;
		return NULL;
	}
	bytes->at += count;
	return at;
}

/* Little-endian, of 1 to 8 bytes; 0: it is not there. */
static uint64_t take_number(struct bytes *bytes, unsigned count)
{
	const uint8_t *at = take(bytes, count);
	uint64_t number = 0;

	for (unsigned i = 0; at && i < count; i++)
		number |= (uint64_t)at[i] << (8 * i);
	return number;
}

static uint64_t take_leb(struct bytes *bytes, bool is_signed)
{
	uint64_t number = 0;
	uint8_t byte = 0x80;
	unsigned shift = 0;

	for (; byte & 0x80 && !bytes->bad; shift += 7) {
		byte = (uint8_t)take_number(bytes, 1);
		if (shift < 64)
			number |= (uint64_t)(byte & 0x7f) << shift;
	}
	if (is_signed && byte & 0x40 && shift < 64)
		number |= ~0ull << shift;
	return number;
}

static struct bytes take_block(struct bytes *bytes)
{
	uint64_t count = take_leb(bytes, false);
	const uint8_t *at = take(bytes, count);

	return at ? (struct bytes){.at = at, .end = at + count} : (struct bytes){.bad = true};
}

/* ---- Pointers --------------------------------------------------------------------------------- */

#define POINTER_NONE		0xff
#define POINTER_FORM		0x0f
#define POINTER_OF		0x70
#define POINTER_INDIRECT	0x80
#define POINTER_OF_PLACE	0x10

/* The section, and where its linker has put it. */
struct section {
	uint8_t *all;
	size_t bytes;
	uint64_t address;
};

/* 0: a form that x86-64's compilers do not use. */
static unsigned pointer_bytes(uint8_t form, bool *is_signed)
{
	static const uint8_t bytes[16] = {[0x0] = 8, [0x2] = 2, [0x3] = 4, [0x4] = 8, [0xa] = 2, [0xb] = 4, [0xc] = 8};

	*is_signed = form & 8;
	return bytes[form & POINTER_FORM];
}

static uint64_t take_pointer(struct bytes *bytes, const struct section *section, uint8_t form, bool is_length)
{
	uint64_t place = section->address + (uint64_t)(bytes->at - section->all), number;
	bool is_signed;
	unsigned count = pointer_bytes(form, &is_signed);

	if (!count || form & POINTER_INDIRECT || ((form & POINTER_OF) && (form & POINTER_OF) != POINTER_OF_PLACE)) {
		bytes->bad = true;
		return 0;
	}
	number = take_number(bytes, count);
	if (is_signed && count < 8 && number >> (8 * count - 1) & 1)
		number |= ~0ull << (8 * count);
	return is_length || !(form & POINTER_OF) ? number : number + place;
}

/* ---- Rules ------------------------------------------------------------------------------------ */

#define RBP	6
#define RSP	7
#define RIP	16

#define OP_DEREF	0x06
#define OP_PLUS_UCONST	0x23
#define OP_BREG0	0x70

/* Where a register's value of the caller is. */
enum saved_how {
	SAVED_NOT,		/* it still has it */
	SAVED_AT_CFA,
	SAVED_AT_RBP,
	SAVED_AT_RSP,
	SAVED_NEVER,		/* it is lost; of the return address: nobody has called */
	SAVED_SOMEHOW,		/* in a way that no row expresses */
};

struct saved {
	enum saved_how how;
	int64_t offset;
};

/* The rules at one place in the code. */
struct state {
	uint8_t rule;		/* enum unwind_rule, of the CFA; UNWIND_AND_8 */
	int64_t cfa;
	struct saved rbp, rip;
};

static bool row_number(int64_t offset, int64_t min, int64_t max, int64_t *number)
{
	*number = offset / 8;
	return offset % 8 == 0 && *number >= min && *number <= max;
}

static bool is_signal(const struct state *state)
{
	return state->rule == UNWIND_AT_RSP && state->cfa == 160 && state->rbp.how == SAVED_AT_RSP &&
	       state->rbp.offset == 120 && state->rip.how == SAVED_AT_RSP && state->rip.offset == 168;
}

static struct unwind_row make_row(const struct state *state)
{
	const struct unwind_row unknown = {.rule = UNWIND_UNKNOWN};
	struct unwind_row row = {.rule = state->rule};
	int64_t number;

	if (state->rip.how == SAVED_NEVER)
		return (struct unwind_row){.rule = UNWIND_END};
	if (is_signal(state))
		return (struct unwind_row){.rule = UNWIND_SIGNAL};
	if (state->rule == UNWIND_UNKNOWN || state->rip.how != SAVED_AT_CFA || state->rip.offset != -8)
		return unknown;
	if (state->rule != UNWIND_PLT && !row_number(state->cfa, INT16_MIN, INT16_MAX, &number))
		return unknown;
	row.cfa = (int16_t)(state->rule == UNWIND_PLT ? state->cfa : number);
	if (state->rbp.how == SAVED_NOT)
		return row;
	if ((state->rbp.how != SAVED_AT_CFA && state->rbp.how != SAVED_AT_RBP) ||
	    !row_number(state->rbp.offset, INT8_MIN, INT8_MAX, &number))
		return unknown;
	row.rbp = (int8_t)number;
	row.rule |= state->rbp.how == SAVED_AT_CFA ? UNWIND_RBP_AT_CFA : UNWIND_RBP_AT_RBP;
	return row;
}

/* ---- Expressions ------------------------------------------------------------------------------ */

/* The linker's, of an entry of the PLT: the entry's second push has been done from byte N of its 16 on. */
static bool is_plt(const struct bytes *expression, struct state *state)
{
	static const uint8_t plt[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0, 0x2a, 0x33, 0x24, 0x22};
	const uint8_t *at = expression->at;
	const size_t n = 6;

	if (expression->end - at != sizeof(plt) || memcmp(at, plt, n) != 0 ||
	    memcmp(at + n + 1, plt + n + 1, sizeof(plt) - n - 1) != 0 || at[n] < 0x30 || at[n] > 0x3f)
		return false;
	state->rule = UNWIND_PLT;
	state->cfa = at[n] - 0x30;
	return true;
}

struct place {
	unsigned of;		/* register */
	int64_t offset;
	bool is_read;		/* it is what lies there, */
	bool and_8;		/* and 8 more */
};

static bool take_operation(struct bytes *expression, uint8_t operation)
{
	bool is_next = expression->at < expression->end && *expression->at == operation;

	expression->at += is_next;
	return is_next;
}

/* False: it is something else. */
static bool take_place(struct bytes expression, struct place *place)
{
	uint8_t operation = (uint8_t)take_number(&expression, 1);

	*place = (struct place){.of = operation - OP_BREG0, .offset = (int64_t)take_leb(&expression, true)};
	if (operation < OP_BREG0 || expression.bad)
		return false;
	place->is_read = take_operation(&expression, OP_DEREF);
	if (place->is_read && take_operation(&expression, OP_PLUS_UCONST)) {
		place->and_8 = true;
		if (take_leb(&expression, false) != 8)
			return false;
	}
	return !expression.bad && expression.at == expression.end;
}

static void take_cfa_expression(struct bytes expression, struct state *state)
{
	struct place place;

	if (!expression.bad && is_plt(&expression, state))
		return;
	state->rule = UNWIND_UNKNOWN;
	if (expression.bad || !take_place(expression, &place))
		return;
	state->cfa = place.offset;
	if (place.of == RSP)
		state->rule = place.is_read ? UNWIND_AT_RSP : UNWIND_RSP;
	else if (place.of == RBP)
		state->rule = place.is_read ? UNWIND_AT_RBP : UNWIND_RBP;
	if (state->rule != UNWIND_UNKNOWN && place.and_8)
		state->rule |= UNWIND_AND_8;
}

static struct saved saved_at(struct bytes expression)
{
	struct saved saved = {.how = SAVED_SOMEHOW};
	struct place place;

	if (expression.bad || !take_place(expression, &place) || place.is_read)
		return saved;
	saved.how = place.of == RSP ? SAVED_AT_RSP : place.of == RBP ? SAVED_AT_RBP : SAVED_SOMEHOW;
	saved.offset = place.offset;
	return saved;
}

/* ---- Instructions ----------------------------------------------------------------------------- */

/* What a CIE says for those FDEs that name it. */
struct common {
	size_t at;		/* in the section */
	bool is_good;
	uint64_t code_align;
	int64_t data_align;
	uint8_t form;		/* of pointers to code */
	bool has_augmentation;
	struct bytes program;
	struct state first;
};

struct rows {
	struct unwind_row *row;
	size_t rows, room;
	bool too_many, no_memory;	/* for good: a row is missing */
};

/* One FDE: the code that it is of, and where in it its program is. */
struct running {
	const struct section *section;
	const struct common *common;
	struct rows *rows;	/* NULL: a CIE's */
	uint64_t place, end;	/* in the file */
	size_t first;		/* its first row */
	struct state state, remembered[UNWIND_STATES_MAX];
	unsigned depth;
};

static struct unwind_row *more_room(struct rows *rows)
{
	size_t room = rows->room ? rows->room * 2 : 4096;
	struct unwind_row *row;

	if (rows->too_many || rows->no_memory)
		return NULL;
	if (rows->rows < rows->room)
		return &rows->row[rows->rows];
	if (room > UNWIND_FILE_ROWS_MAX)
		room = UNWIND_FILE_ROWS_MAX;
	rows->too_many = rows->rows >= room;
	row = rows->too_many ? NULL : realloc(rows->row, room * sizeof(*row));
	rows->no_memory = !rows->too_many && !row;
	if (!row)
		return NULL;
	rows->row = row;
	rows->room = room;
	return &row[rows->rows];
}

static bool is_same(const struct unwind_row *a, const struct unwind_row *b)
{
	return a->rule == b->rule && a->cfa == b->cfa && a->rbp == b->rbp;
}

/* Of the code from that place on. A row for the same place is overwritten, one that says the same goes on. */
static void put_row(struct rows *rows, size_t first, uint64_t place, struct unwind_row row)
{
	struct unwind_row *last = rows->rows > first ? &rows->row[rows->rows - 1] : NULL, *to;

	row.at = (uint32_t)place;
	if (last && last->at == row.at) {
		*last = row;
		return;
	}
	if (last && is_same(last, &row))
		return;
	to = more_room(rows);
	if (to) {
		*to = row;
		rows->rows++;
	}
}

static void put_state(const struct running *running)
{
	if (running->rows && running->place < running->end)
		put_row(running->rows, running->first, running->place, make_row(&running->state));
}

static void advance(struct running *running, uint64_t steps)
{
	uint64_t by;

	put_state(running);
	if (__builtin_mul_overflow(steps, running->common->code_align, &by) ||
	    __builtin_add_overflow(running->place, by, &running->place))
		running->place = UINT64_MAX;
}

static struct saved *saved_of(struct state *state, uint64_t of)
{
	return of == RBP ? &state->rbp : of == RIP ? &state->rip : NULL;
}

static void save(struct running *running, uint64_t of, enum saved_how how, int64_t factor)
{
	struct saved *saved = saved_of(&running->state, of);
	int64_t offset;

	if (!saved)
		return;
	if (__builtin_mul_overflow(factor, running->common->data_align, &offset))
		how = SAVED_SOMEHOW;
	*saved = (struct saved){.how = how, .offset = how == SAVED_AT_CFA ? offset : 0};
}

static void restore(struct running *running, uint64_t of)
{
	struct saved *saved = saved_of(&running->state, of);

	if (saved)
		*saved = *saved_of(&(struct state){.rbp = running->common->first.rbp, .rip = running->common->first.rip},
				   of);
}

static void define_of(struct state *state, uint64_t of)
{
	state->rule = of == RSP ? UNWIND_RSP : of == RBP ? UNWIND_RBP : UNWIND_UNKNOWN;
}

static void define_offset(struct running *running, uint64_t number, bool is_factored)
{
	int64_t offset = (int64_t)number;

	if (is_factored && __builtin_mul_overflow(offset, running->common->data_align, &offset))
		running->state.rule = UNWIND_UNKNOWN;
	running->state.cfa = offset;
}

enum {
	CFA_SET_LOC = 0x01, CFA_ADVANCE_1, CFA_ADVANCE_2, CFA_ADVANCE_4, CFA_OFFSET, CFA_RESTORE, CFA_UNDEFINED,
	CFA_SAME, CFA_REGISTER, CFA_REMEMBER, CFA_RECALL, CFA_DEFINE, CFA_DEFINE_REGISTER, CFA_DEFINE_OFFSET,
	CFA_DEFINE_EXPRESSION, CFA_EXPRESSION, CFA_OFFSET_SIGNED, CFA_DEFINE_SIGNED, CFA_DEFINE_OFFSET_SIGNED,
	CFA_VALUE_OFFSET, CFA_VALUE_OFFSET_SIGNED, CFA_VALUE_EXPRESSION,
	CFA_ARGS_SIZE = 0x2e,
	CFA_SHORT = 0xc0,		/* these bits: one of */
	CFA_SHORT_ADVANCE = 0x40, CFA_SHORT_OFFSET = 0x80, CFA_SHORT_RESTORE = 0xc0,
};

/* Of the CFA itself. False: it is something else. */
static bool run_define(struct running *running, uint8_t operation, struct bytes *program)
{
	struct state *state = &running->state;

	switch (operation) {
	case CFA_DEFINE:
	case CFA_DEFINE_SIGNED:
		define_of(state, take_leb(program, false));
		define_offset(running, take_leb(program, operation == CFA_DEFINE_SIGNED),
			      operation == CFA_DEFINE_SIGNED);
		return true;
	case CFA_DEFINE_REGISTER:
		define_of(state, take_leb(program, false));
		return true;
	case CFA_DEFINE_OFFSET:
	case CFA_DEFINE_OFFSET_SIGNED:
		define_offset(running, take_leb(program, operation == CFA_DEFINE_OFFSET_SIGNED),
			      operation == CFA_DEFINE_OFFSET_SIGNED);
		return true;
	case CFA_DEFINE_EXPRESSION:
		take_cfa_expression(take_block(program), state);
		return true;
	default:
		return false;
	}
}

/* Of a register of the caller. */
static bool run_save(struct running *running, uint8_t operation, struct bytes *program)
{
	uint64_t of;
	struct saved *saved;

	if (operation < CFA_OFFSET || operation > CFA_VALUE_EXPRESSION || operation == CFA_REMEMBER ||
	    operation == CFA_RECALL)
		return false;
	of = take_leb(program, false);
	saved = saved_of(&running->state, of);
	switch (operation) {
	case CFA_OFFSET:
		save(running, of, SAVED_AT_CFA, (int64_t)take_leb(program, false));
		break;
	case CFA_OFFSET_SIGNED:
		save(running, of, SAVED_AT_CFA, (int64_t)take_leb(program, true));
		break;
	case CFA_RESTORE:
		restore(running, of);
		break;
	case CFA_UNDEFINED:
		save(running, of, SAVED_NEVER, 0);
		break;
	case CFA_SAME:
		save(running, of, SAVED_NOT, 0);
		break;
	case CFA_EXPRESSION: {
		struct saved at = saved_at(take_block(program));

		if (saved)
			*saved = at;
		break;
	}
	case CFA_VALUE_EXPRESSION:
		take_block(program);
		save(running, of, SAVED_SOMEHOW, 0);
		break;
	default:		/* a register, or a value that is no place */
		take_leb(program, operation == CFA_VALUE_OFFSET_SIGNED);
		save(running, of, SAVED_SOMEHOW, 0);
	}
	return true;
}

/* Of places in the code, and of states. */
static bool run_place(struct running *running, uint8_t operation, struct bytes *program)
{
	switch (operation) {
	case 0:
		return true;
	case CFA_ADVANCE_1:
	case CFA_ADVANCE_2:
	case CFA_ADVANCE_4:
		advance(running, take_number(program, 1u << (operation - CFA_ADVANCE_1)));
		return true;
	case CFA_REMEMBER:
		if (running->depth == UNWIND_STATES_MAX)
			return false;
		running->remembered[running->depth++] = running->state;
		return true;
	case CFA_RECALL:
		if (!running->depth)
			return false;
		running->state = running->remembered[--running->depth];
		return true;
	case CFA_ARGS_SIZE:
		take_leb(program, false);
		return true;
	default:
		return false;
	}
}

/* False: of what comes behind an instruction that is not known, nothing is. */
static bool run(struct running *running, struct bytes program)
{
	while (program.at < program.end && !program.bad) {
		uint8_t operation = (uint8_t)take_number(&program, 1), number = operation & ~CFA_SHORT & 0xff;

		switch (operation & CFA_SHORT) {
		case CFA_SHORT_ADVANCE:
			advance(running, number);
			continue;
		case CFA_SHORT_OFFSET:
			save(running, number, SAVED_AT_CFA, (int64_t)take_leb(&program, false));
			continue;
		case CFA_SHORT_RESTORE:
			restore(running, number);
			continue;
		}
		if (!run_place(running, operation, &program) && !run_define(running, operation, &program) &&
		    !run_save(running, operation, &program))
			return false;
	}
	return !program.bad;
}

/* ---- Entries ---------------------------------------------------------------------------------- */

/* What the letters behind the 'z' say; the rest is passed over by its length. */
static bool take_augmentation(struct bytes *entry, const struct section *section, const char *letters,
			      struct common *common)
{
	struct bytes data;

	if (!*letters)
		return true;
	if (*letters != 'z')
		return false;
	common->has_augmentation = true;
	data = take_block(entry);
	while (*++letters && !data.bad) {
		uint8_t form;

		if (*letters == 'S')
			continue;
		if (*letters != 'R' && *letters != 'L' && *letters != 'P')
			return false;
		form = (uint8_t)take_number(&data, 1);
		if (*letters == 'R')
			common->form = form;
		else if (*letters == 'P' && form != POINTER_NONE)
			take_pointer(&data, section, form & POINTER_FORM, true);
	}
	return !data.bad;
}

/* Behind its length and its number. */
static void take_common(struct bytes entry, const struct section *section, struct common *common)
{
	uint8_t version = (uint8_t)take_number(&entry, 1);
	const char *letters = (const char *)entry.at;
	struct running running = {.section = section, .common = common};
	const uint8_t *end = entry.bad ? NULL : memchr(entry.at, 0, (size_t)(entry.end - entry.at));
	uint64_t of;

	if (!end || (version != 1 && version != 3))
		return;
	entry.at = end + 1;
	common->code_align = take_leb(&entry, false);
	common->data_align = (int64_t)take_leb(&entry, true);
	of = version == 1 ? take_number(&entry, 1) : take_leb(&entry, false);
	if (of != RIP || !take_augmentation(&entry, section, letters, common) || entry.bad ||
	    entry.end - entry.at > UNWIND_CIE_BYTES_MAX)
		return;
	running.state = (struct state){.rule = UNWIND_UNKNOWN};
	common->is_good = run(&running, entry);
	common->first = running.state;
}

/* An entry of the section: its bytes behind its number. False: there are no more. */
static bool next_entry(const struct section *section, size_t *at, struct bytes *entry, size_t *common_at)
{
	struct bytes rest = {.at = section->all + *at, .end = section->all + section->bytes};
	uint64_t bytes = take_number(&rest, 4), back;
	size_t number_at;

	if (bytes == UINT32_MAX)
		bytes = take_number(&rest, 8);
	number_at = (size_t)(rest.at - section->all);
	if (rest.bad || bytes < 4 || bytes > (uint64_t)(rest.end - rest.at))
		return false;
	*entry = (struct bytes){.at = rest.at, .end = rest.at + bytes};
	*at = number_at + (size_t)bytes;
	back = take_number(entry, 4);
	*common_at = !back ? SIZE_MAX : back <= number_at ? number_at - (size_t)back : SIZE_MAX - 1;
	return true;
}

/* The CIE that begins there, of which the last one is remembered. */
static bool find_common(const struct section *section, size_t at, struct common *common)
{
	struct bytes entry;
	size_t next = at, none;

	if (common->at == at)
		return common->is_good;
	*common = (struct common){.at = at};
	if (at < section->bytes && next_entry(section, &next, &entry, &none) && none == SIZE_MAX)
		take_common(entry, section, common);
	return common->is_good;
}

static void take_description(struct bytes entry, const struct section *section, const struct common *common,
			     const struct elf_symbols *places, struct rows *rows)
{
	uint64_t address = take_pointer(&entry, section, common->form, false), begin;
	uint64_t bytes = take_pointer(&entry, section, common->form, true);
	struct running running = {.section = section, .common = common, .rows = rows, .first = rows->rows};

	if (common->has_augmentation)
		take_block(&entry);
	if (entry.bad || !bytes || !elf_symbols_offset(places, address, &begin) ||
	    begin > UINT32_MAX || bytes > UINT32_MAX - begin)
		return;
	running.place = begin;
	running.end = begin + bytes;
	running.state = common->first;
	if (!run(&running, entry))
		running.state.rule = UNWIND_UNKNOWN;
	put_state(&running);
	put_row(rows, running.first, running.end, (struct unwind_row){.rule = UNWIND_NONE});
}

static void take_entries(const struct section *section, const struct elf_symbols *places, struct rows *rows)
{
	struct common common = {.at = SIZE_MAX};
	size_t at = 0, common_at;
	struct bytes entry;

	while (at < section->bytes && !rows->too_many && !rows->no_memory &&
	       next_entry(section, &at, &entry, &common_at))
		if (common_at != SIZE_MAX && find_common(section, common_at, &common))
			take_description(entry, section, &common, places, rows);
}

/* ---- The table -------------------------------------------------------------------------------- */

/* Where code ends, other code may begin: that comes behind. */
static int compare(const void *a, const void *b)
{
	const struct unwind_row *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (x->rule != UNWIND_NONE) - (y->rule != UNWIND_NONE);
}

static void sort(struct rows *rows)
{
	size_t kept = 0;

	qsort(rows->row, rows->rows, sizeof(*rows->row), compare);
	for (size_t i = 0; i < rows->rows; i++) {
		if (i + 1 < rows->rows && rows->row[i].at == rows->row[i + 1].at)
			continue;
		if (!kept || !is_same(&rows->row[kept - 1], &rows->row[i]))
			rows->row[kept++] = rows->row[i];
	}
	rows->rows = kept;
}

static bool is_of_this_machine(int fd)
{
	Elf64_Ehdr header;

	return pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) && header.e_machine == EM_X86_64;
}

static int compile(int fd, const struct elf_symbols *places, struct rows *rows)
{
	struct section section;

	section.all = elf_section_read(fd, ".eh_frame", UNWIND_SECTION_BYTES_MAX, &section.bytes, &section.address);
	if (!section.all)
		return -ENODATA;
	take_entries(&section, places, rows);
	free(section.all);
	if (rows->no_memory || rows->too_many)
		return rows->no_memory ? -ENOMEM : -E2BIG;
	if (!rows->rows)
		return -ENODATA;
	sort(rows);
	return 0;
}

int unwind_table_compile(int fd, struct unwind_table *table)
{
	struct elf_symbols *places = is_of_this_machine(fd) ? elf_symbols_load_places(fd) : NULL;
	struct rows rows = {0};
	int err;

	*table = (struct unwind_table){0};
	if (!places)
		return -ENOEXEC;
	memcpy(table->build_id, elf_symbols_build_id(places), sizeof(table->build_id));
	err = compile(fd, places, &rows);
	elf_symbols_destroy(places);
	if (err) {
		free(rows.row);
		return err;
	}
	table->row = rows.row;
	table->rows = rows.rows;
	return 0;
}

void unwind_table_free(struct unwind_table *table)
{
	free(table->row);
	*table = (struct unwind_table){0};
}
