/* constant: see constant.h. */
#include "query/constant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct constant {
	const char *name;
	uint32_t value;
};

struct constant_set {
	const struct constant *constant;	/* up to one without a name; flags of many bits first */
	uint32_t mask;				/* flags: bits that are a number of their own */
	bool flags;
	bool by_machine;
};

struct constant_rule {
	const char *function, *argument;
	const struct constant_set *set;
	const char *other;			/* "" or the argument that must have other_value */
	uint32_t other_value;
};

#include "query/constants.inc"

#define RULES	(sizeof(rule_table) / sizeof(*rule_table))
#define SETS	(sizeof(set_table) / sizeof(*set_table))

static int compare_rules(const void *a, const void *b)
{
	const struct constant_rule *left = a, *right = b;
	int order = strcmp(left->function, right->function);

	return order ? order : strcmp(left->argument, right->argument);
}

const struct constant_rule *constant_rule(const char *function, const char *argument)
{
	const struct constant_rule wanted = { .function = function, .argument = argument };
	const struct constant_rule *found =
		bsearch(&wanted, rule_table, RULES, sizeof(*rule_table), compare_rules);

	while (found && found > rule_table && compare_rules(found - 1, &wanted) == 0)
		found--;
	return found;
}

const struct constant_rule *constant_rule_next(const struct constant_rule *rule)
{
	return rule + 1 < rule_table + RULES && compare_rules(rule, rule + 1) == 0 ? rule + 1 : NULL;
}

const char *constant_rule_other(const struct constant_rule *rule, uint32_t *value)
{
	*value = rule->other_value;
	return *rule->other ? rule->other : NULL;
}

bool constant_rule_by_machine(const struct constant_rule *rule)
{
	return rule->set->by_machine;
}

static const char *name_of(const struct constant_set *set, uint32_t value, uint32_t within)
{
	for (const struct constant *at = set->constant; at->name; at++)
		if (at->value == value && !(at->value & ~within))
			return at->name;
	return NULL;
}

struct text {
	char *at;
	size_t bytes;
	bool full;
};

static void add(struct text *text, const char *name)
{
	size_t bytes = strlen(name), sign = text->bytes ? 1 : 0;

	if (text->bytes + sign + bytes >= CONSTANT_TEXT_BYTES) {
		text->full = true;
		return;
	}
	if (sign)
		text->at[text->bytes++] = '|';
	memcpy(text->at + text->bytes, name, bytes + 1);
	text->bytes += bytes;
}

static void add_number(struct text *text, uint64_t value)
{
	char number[24];

	snprintf(number, sizeof(number), "%#llx", (unsigned long long)value);
	add(text, number);
}

/* The bits that are a number of their own come first, as in O_RDWR|O_CREAT. */
static void print_flags(const struct constant_set *set, uint64_t value, struct text *text)
{
	const char *number = name_of(set, value & set->mask, set->mask);
	uint64_t rest = value & ~(uint64_t)set->mask;

	if (number && (set->mask || !value))
		add(text, number);
	else
		rest = value;
	for (const struct constant *at = set->constant; rest && at->name; at++)
		if (at->value & ~set->mask && (rest & at->value) == at->value) {
			add(text, at->name);
			rest &= ~(uint64_t)at->value;
		}
	if (rest && text->bytes)
		add_number(text, rest);
}

size_t constant_print(const struct constant_rule *rule, uint64_t value,
		      char text[CONSTANT_TEXT_BYTES])
{
	const struct constant_set *set = rule->set;
	struct text made = { .at = text };
	const char *name;

	/* An int may have come with its sign: what is above it says nothing. */
	if (value >> 32 == UINT32_MAX)
		value &= UINT32_MAX;
	text[0] = '\0';
	if (value > UINT32_MAX)
		return 0;
	if (set->flags) {
		print_flags(set, value, &made);
	} else {
		name = name_of(set, (uint32_t)value, UINT32_MAX);
		if (name)
			add(&made, name);
	}
	return made.full ? 0 : made.bytes;
}

/* So few below 0 that no flag and no ioctl() is among them. */
#define NEGATIVE_MIN 0xfffff000u

bool constant_find(const char *name, int64_t *value)
{
	for (size_t i = 0; i < SETS; i++)
		for (const struct constant *at = set_table[i].constant; at->name; at++)
			if (!strcmp(at->name, name)) {
				*value = at->value < NEGATIVE_MIN ? (int64_t)at->value :
									(int32_t)at->value;
				return true;
			}
	return false;
}

const char *constant_name(size_t i)
{
	for (size_t set = 0; set < SETS; set++)
		for (const struct constant *at = set_table[set].constant; at->name; at++)
			if (!i--)
				return at->name;
	return NULL;
}
