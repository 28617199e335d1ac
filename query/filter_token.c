#include "query/filter_token.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "query/filter_tree.h"
#include "query/quantity.h"

/* Longer ones first where one begins another. */
static const struct symbol {
	const char *text;
	enum token_kind kind;
} symbols[] = {
	{ "&&", TOKEN_AND }, { "||", TOKEN_OR },    { "==", TOKEN_EQ },   { "!=", TOKEN_NE },
	{ "<=", TOKEN_LE },  { ">=", TOKEN_GE },    { "=~", TOKEN_MATCH }, { "<", TOKEN_LT },
	{ ">", TOKEN_GT },   { "!", TOKEN_NOT },    { "(", TOKEN_OPEN },  { ")", TOKEN_CLOSE },
	{ ",", TOKEN_COMMA }, { "-", TOKEN_MINUS }, { "&", TOKEN_BITS },
};

/* What people write who come from other languages. */
static const struct {
	char wrong;
	const char *right;
} slips[] = {
	{ '=', "equality is ==" },
	{ '|', "or is ||" },
	{ '~', "a glob is compared with =~" },
	{ '\'', "text stands in double quotes" },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool name_goes_on(unsigned char c)
{
	return isalnum(c) || c == '_' || c == '.';
}

void filter_lexer_init(struct filter_lexer *lexer, const char *text, char *strings)
{
	*lexer = (struct filter_lexer){ .begin = text, .at = text, .strings = strings };
}

static int read_number(struct filter_token *token, struct error *error)
{
	struct error inner;
	size_t used;

	if (quantity_read(token->at, strlen(token->at), QUANTITY_ANY, &token->number, &used,
			  &inner)) {
		filter_refuse(error, token->column, inner.code, "%s", inner.what);
		error_hint(error, "%s", inner.hint);
		return -EINVAL;
	}
	token->kind = TOKEN_NUMBER;
	token->bytes = used;
	return 0;
}

/* 10.1.2.3 or 10.0.0.0/8, which need no quotes: its bytes, or 0. */
static int address_bytes(const char *text)
{
	const char *at = text;

	for (int dots = 0; isdigit((unsigned char)*at); dots++) {
		at += strspn(at, "0123456789");
		if (dots == 3)
			break;
		if (*at++ != '.')
			return 0;
		if (!isdigit((unsigned char)*at))
			return 0;
	}
	if (*at == '/' && isdigit((unsigned char)at[1]))
		at += 1 + strspn(at + 1, "0123456789");
	return (int)(at - text);
}

/* It takes one byte more than it has, for which there is room: no other can follow it at once. */
static void read_address(struct filter_lexer *lexer, struct filter_token *token, int bytes)
{
	token->kind = TOKEN_STRING;
	token->text = lexer->strings;
	token->bytes = bytes;
	memcpy(lexer->strings, token->at, bytes);
	lexer->strings[bytes] = '\0';
	lexer->strings += bytes + 1;
}

static int read_string(struct filter_lexer *lexer, struct filter_token *token, struct error *error)
{
	const char *from = token->at + 1;
	char *to = lexer->strings;

	for (; *from != '"'; from++) {
		if (*from == '\0')
			return filter_refuse(error, token->column, "filter-open-string",
					     "the text that begins here has no closing \"");
		if (*from == '\\') {
			from++;
			if (*from != '"' && *from != '\\') {
				filter_refuse(error, token->column + (from - 1 - token->at),
					      "filter-bad-escape",
					      "a \\ may stand only before \" and \\");
				error_hint(error, "in a glob, write \\\\* for a plain *");
				return -EINVAL;
			}
		}
		*to++ = *from;
	}
	*to++ = '\0';
	token->kind = TOKEN_STRING;
	token->text = lexer->strings;
	token->bytes = from + 1 - token->at;
	lexer->strings = to;
	return 0;
}

static int read_symbol(struct filter_token *token, struct error *error)
{
	unsigned char c = *token->at;

	for (size_t i = 0; i < COUNT(symbols); i++) {
		size_t bytes = strlen(symbols[i].text);

		if (strncmp(token->at, symbols[i].text, bytes) == 0) {
			token->kind = symbols[i].kind;
			token->bytes = bytes;
			return 0;
		}
	}
	if (isprint(c))
		filter_refuse(error, token->column, "filter-bad-character",
			      "`%c` means nothing here", c);
	else
		filter_refuse(error, token->column, "filter-bad-character",
			      "byte 0x%02x means nothing here", c);
	for (size_t i = 0; i < COUNT(slips); i++) {
		if (slips[i].wrong == (char)c)
			error_hint(error, "%s", slips[i].right);
	}
	return -EINVAL;
}

int filter_token_next(struct filter_lexer *lexer, struct filter_token *token, struct error *error)
{
	unsigned char c;
	int err = 0;

	while (isspace((unsigned char)*lexer->at))
		lexer->at++;
	c = *lexer->at;
	*token = (struct filter_token){
		.at = lexer->at,
		.column = lexer->at - lexer->begin + 1,
	};
	if (c == '\0')
		return 0;
	if (isdigit(c) && address_bytes(lexer->at)) {
		read_address(lexer, token, address_bytes(lexer->at));
	} else if (isdigit(c)) {
		err = read_number(token, error);
	} else if (c == '"') {
		err = read_string(lexer, token, error);
	} else if (isalpha(c) || c == '_') {
		token->kind = TOKEN_NAME;
		while (name_goes_on(token->at[token->bytes]))
			token->bytes++;
	} else {
		err = read_symbol(token, error);
	}
	lexer->at += token->bytes;
	return err;
}
