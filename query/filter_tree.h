/*
 * filter_tree: a filter as it was understood: typed comparisons under and, or, not.
 *
 * Private to filter*.c. The parser makes the tree; the program and the kernel's clauses are made
 * from it. Main thread; what outlives compiling (fields, sets, text) is immutable from then on.
 */
#ifndef RINGTAIL_QUERY_FILTER_TREE_H
#define RINGTAIL_QUERY_FILTER_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "query/error.h"
#include "query/probe_set.h"
#include "query/socket_text.h"
#include "kmod/uapi/ringtail.h"
#include "proto/limits.h"

#define FILTER_NODES_MAX	1024u
#define FILTER_DEPTH_MAX	64u	/* of parentheses and negations */
#define FILTER_FIELDS_MAX	16u	/* distinct field names */
#define FILTER_SETS_MAX		64u	/* comparisons of probe names */
#define FILTER_PRINT_BYTES_MAX	(16u << 20)	/* of print formats, each time that a name is looked for in one */

/* What an event can be asked for. */
enum filter_subject_kind {
	/* numbers, which every event has */
	SUBJECT_PID,
	SUBJECT_TID,
	SUBJECT_UID,
	SUBJECT_PPID,
	SUBJECT_CPU,
	SUBJECT_TIME,
	SUBJECT_KERNEL,		/* 0 or 1 */
	/* numbers, which some probes have */
	SUBJECT_FIELD,
	SUBJECT_ERROR,		/* errno of a result, or 0 */
	SUBJECT_PORT,		/* of the text of a socket's address */
	/* text */
	SUBJECT_COMM,
	SUBJECT_EXE,		/* text that some threads have */
	SUBJECT_CGROUP,
	SUBJECT_CONTAINER,
	SUBJECT_PROBE,		/* provider:function:name */
	SUBJECT_PROVIDER,
	SUBJECT_FUNCTION,
	SUBJECT_NAME,
};

#define FIELD_ABSENT	0xff

/* Where a probe has a field, and how to read its word. */
struct filter_place {
	uint8_t index;		/* FIELD_ABSENT: it has none of that name */
	uint8_t shift : 6;	/* 64 less its width */
	uint8_t is_signed : 1;
	uint8_t is_outcome : 1;	/* absent from a call that never returns */
	uint8_t text_bytes;	/* of a text in its own words and those behind it; or: */
};

#define TEXT_POINTED	0	/* the word is an address, and the text may be attached */
#define TEXT_ATTACHED	0xfe	/* the word is how many bytes there were, which may be attached */

/* A name of the catalog, and its place in every probe that has it. */
struct filter_field {
	char name[NAME_BYTES_MAX + 1];
	enum filter_field_sort {
		FIELD_NAMED,
		FIELD_ERROR,	/* the word is a result, and its errno is asked for */
		FIELD_SOCKET,	/* the address of a struct sockaddr, whatever it is called */
	} sort;
	bool is_result;		/* in every probe that has it: -4095..-1 is an errno */
	struct probe_set strings;	/* the probes in which it is the address of a text */
	bool is_string;		/* in some, or perhaps: there is no catalog */
	struct filter_place place[RT_PROBE_MAX];
};

struct filter_subject {
	enum filter_subject_kind kind;
	const struct filter_field *field;	/* of SUBJECT_FIELD, SUBJECT_ERROR, SUBJECT_PORT */
};

enum filter_op {
	FILTER_EQ,
	FILTER_NE,
	FILTER_LT,
	FILTER_LE,
	FILTER_GT,
	FILTER_GE,
	FILTER_MATCH,		/* =~ */
};

/* Wide enough for every u64 and every s64, so that comparisons mean what they say. */
typedef __int128 filter_number;

enum filter_node_kind {
	NODE_AND,
	NODE_OR,
	NODE_NOT,
	NODE_NUMBER,		/* left op number; false where left is absent */
	NODE_PAIR,		/* left op right; false where either is absent */
	NODE_BITS,		/* (left & mask) op number, op: EQ NE; false where left is absent */
	NODE_COMM,		/* comm op text, op: EQ NE MATCH */
	NODE_TEXT,		/* exe, cgroup or container op text; false where it is absent */
	NODE_STRING,		/* the text of a field op text; false where there is none, see filter_text.h */
	NODE_ADDRESS,		/* the socket's address is in the network, op: EQ NE; false where there is none */
	NODE_PROBES,		/* the probe is in the set */
};

struct filter_node {
	enum filter_node_kind kind;
	enum filter_op op;
	/* AND, OR: the children from last to first, linked by `before`; NOT: its one child */
	struct filter_node *last;
	struct filter_node *before;
	struct filter_subject left, right;
	filter_number number;
	uint64_t mask;
	const char *text;
	const struct probe_set *probes;
	struct socket_network network;
};

struct filter_tree {
	struct filter_node *node;	/* FILTER_NODES_MAX; may be freed once the filter is made */
	unsigned nodes;
	unsigned fields, sets;
	size_t print_bytes;		/* in which names were looked for */
	unsigned glob_bytes;		/* of the patterns that texts of any length are compared with */
	struct filter_field *field[FILTER_FIELDS_MAX];
	struct probe_set *set[FILTER_SETS_MAX];
	char text[FILTER_BYTES_MAX + 1];/* the strings, terminated, one after the other */
};

struct filter_tree *filter_tree_create(void);
void filter_tree_destroy(struct filter_tree *tree);

/* One more of each, zeroed. -EINVAL with *error when there are too many, at `column`; -ENOMEM. */
int filter_tree_node(struct filter_tree *tree, enum filter_node_kind kind, unsigned column,
		     struct filter_node **node, struct error *error);
int filter_tree_field(struct filter_tree *tree, unsigned column, struct filter_field **field,
		      struct error *error);
int filter_tree_set(struct filter_tree *tree, unsigned column, struct probe_set **set,
		    struct error *error);

void filter_node_add(struct filter_node *parent, struct filter_node *child);

/* -EINVAL with *error, which tells the column in words too. */
__attribute__((format(printf, 4, 5)))
int filter_refuse(struct error *error, unsigned column, const char *code, const char *format, ...);

#endif
