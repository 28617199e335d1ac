/*
 * filter_token: the text of a filter as tokens, one after the other.
 *
 * In: the text. Out: tokens, which point into it; or an error with the column. Private to filter_parse.c; any
 * thread.
 */
#ifndef RINGTAIL_QUERY_FILTER_TOKEN_H
#define RINGTAIL_QUERY_FILTER_TOKEN_H

#include <stdint.h>

#include "query/error.h"

enum token_kind {
	TOKEN_END,
	TOKEN_NAME,		/* letters, digits, _ and . */
	TOKEN_NUMBER,
	TOKEN_STRING,
	TOKEN_OPEN,
	TOKEN_CLOSE,
	TOKEN_COMMA,
	TOKEN_MINUS,
	TOKEN_NOT,
	TOKEN_AND,
	TOKEN_BITS,		/* & */
	TOKEN_OR,
	TOKEN_EQ,
	TOKEN_NE,
	TOKEN_LE,
	TOKEN_GE,
	TOKEN_LT,
	TOKEN_GT,
	TOKEN_MATCH,
};

struct filter_token {
	enum token_kind kind;
	unsigned column;	/* 1-based */
	const char *at;		/* in the filter's text, */
	int bytes;		/* not terminated */
	uint64_t number;	/* TOKEN_NUMBER, its unit applied */
	const char *text;	/* TOKEN_STRING, without quotes and escapes, terminated */
};

struct filter_lexer {
	const char *begin;
	const char *at;
	char *strings;		/* where the next string goes: room for as much text as is left */
};

/* `strings` has room for the text and a terminator: a string is shorter than its quotes. */
void filter_lexer_init(struct filter_lexer *lexer, const char *text, char *strings);

/* The next token; TOKEN_END at the end and after it. -EINVAL with *error. */
int filter_token_next(struct filter_lexer *lexer, struct filter_token *token, struct error *error);

#endif
