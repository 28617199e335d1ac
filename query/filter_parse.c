/* filter_parse: see filter_parse.h. Recursive descent: a function for each rule of the grammar. */
#include "query/filter_parse.h"

#include <errno.h>
#include <string.h>

#include "query/filter_compare.h"
#include "query/filter_name.h"
#include "query/filter_token.h"

struct parser {
	struct filter_lexer lexer;
	struct filter_token token;	/* the next one, not yet taken */
	struct filter_tree *tree;
	const Ringtail__V1__Catalog *catalog;
	unsigned depth;
	struct error *error;
};

static int parse_or(struct parser *parser, struct filter_node **node);

static int advance(struct parser *parser)
{
	return filter_token_next(&parser->lexer, &parser->token, parser->error);
}

static bool token_is_word(const struct filter_token *token, const char *word)
{
	return token->kind == TOKEN_NAME && token->bytes == (int)strlen(word) &&
	       memcmp(token->at, word, token->bytes) == 0;
}

/* The token at hand is not what the grammar wants. */
static int refuse_token(struct parser *parser, const char *wanted)
{
	const struct filter_token *token = &parser->token;

	if (token->kind == TOKEN_END)
		filter_refuse(parser->error, token->column, "filter-incomplete",
			      "the filter ends where %s is expected", wanted);
	else
		filter_refuse(parser->error, token->column, "filter-unexpected",
			      "`%.*s` stands where %s is expected",
			      token->bytes < 60 ? token->bytes : 60, token->at, wanted);
	if (token_is_word(token, "and"))
		error_hint(parser->error, "and is written &&");
	else if (token_is_word(token, "or"))
		error_hint(parser->error, "or is written ||");
	return -EINVAL;
}

static int take(struct parser *parser, enum filter_token_kind kind, const char *wanted)
{
	return parser->token.kind == kind ? advance(parser) : refuse_token(parser, wanted);
}

/* ---- Operands -------------------------------------------------------------------------------- */

static int parse_name(struct parser *parser, struct filter_operand *operand)
{
	enum filter_meaning meaning;
	int64_t number;
	int err = filter_name_resolve(&parser->token, parser->catalog, parser->tree, &meaning,
				      &operand->subject, &number, parser->error);

	if (err)
		return err;
	operand->kind = OPERAND_SUBJECT;
	if (meaning != MEANS_SUBJECT) {
		operand->kind = meaning == MEANS_ERRNO ? OPERAND_ERRNO : OPERAND_NUMBER;
		operand->number = number;
	}
	return advance(parser);
}

static int parse_plain(struct parser *parser, struct filter_operand *operand)
{
	bool negative = parser->token.kind == TOKEN_MINUS;
	int err = 0;

	*operand = (struct filter_operand){ .column = parser->token.column };
	if (negative)
		err = advance(parser);
	if (err)
		return err;
	switch (parser->token.kind) {
	case TOKEN_NAME:
		err = parse_name(parser, operand);
		break;
	case TOKEN_NUMBER:
		operand->kind = OPERAND_NUMBER;
		operand->number = parser->token.number;
		err = advance(parser);
		break;
	case TOKEN_STRING:
		operand->kind = OPERAND_TEXT;
		operand->text = parser->token.text;
		err = advance(parser);
		break;
	default:
		return refuse_token(parser, "a name, a number or \"text\"");
	}
	if (err || !negative)
		return err;
	if (operand->kind != OPERAND_NUMBER && operand->kind != OPERAND_ERRNO)
		return filter_refuse(parser->error, operand->column, "filter-minus",
				     "a minus may stand only before a number or an error's name");
	operand->number = -operand->number;
	return 0;
}

/* `&` binds closer than a comparison does: flags & O_ACCMODE == O_RDWR. */
static int parse_operand(struct parser *parser, struct filter_operand *operand)
{
	struct filter_operand mask;
	int err = parse_plain(parser, operand);

	if (err || parser->token.kind != TOKEN_BITS)
		return err;
	err = advance(parser);
	if (!err)
		err = parse_plain(parser, &mask);
	/* Without a catalog any name may be a field's: one that has it will say. */
	if (!err && !parser->catalog && mask.kind == OPERAND_SUBJECT)
		mask = (struct filter_operand){ .kind = OPERAND_NUMBER, .number = 1 };
	return err ? err : filter_compare_bits(operand, &mask, parser->error);
}

/* ---- Comparisons ----------------------------------------------------------------------------- */

static bool comparison_op(enum filter_token_kind kind, enum filter_op *op)
{
	switch (kind) {
	case TOKEN_EQ:
		*op = FILTER_EQ;
		return true;
	case TOKEN_NE:
		*op = FILTER_NE;
		return true;
	case TOKEN_LT:
		*op = FILTER_LT;
		return true;
	case TOKEN_LE:
		*op = FILTER_LE;
		return true;
	case TOKEN_GT:
		*op = FILTER_GT;
		return true;
	case TOKEN_GE:
		*op = FILTER_GE;
		return true;
	case TOKEN_MATCH:
		*op = FILTER_MATCH;
		return true;
	default:
		return false;
	}
}

/*
 * name in (a, b) is name == a || name == b, and name !in (a, b) is name != a && name != b: so both
 * are false of a field that the event's probe lacks.
 */
static int parse_list(struct parser *parser, const struct filter_operand *name, bool negated,
		      struct filter_node **node)
{
	int err = take(parser, TOKEN_OPEN, "( after in");

	if (!err)
		err = filter_tree_node(parser->tree, negated ? NODE_AND : NODE_OR, name->column,
				       node, parser->error);
	while (!err) {
		struct filter_operand value;
		struct filter_node *compare;

		err = parse_operand(parser, &value);
		if (!err && (value.kind == OPERAND_SUBJECT || value.kind == OPERAND_BITS))
			err = filter_refuse(parser->error, value.column, "filter-list-name",
					    "a list holds numbers or text, not names");
		if (!err)
			err = filter_compare(parser->tree, parser->catalog, name,
					     negated ? FILTER_NE : FILTER_EQ, &value, &compare,
					     parser->error);
		if (err)
			break;
		filter_node_add(*node, compare);
		if (parser->token.kind == TOKEN_CLOSE)
			return advance(parser);
		err = take(parser, TOKEN_COMMA, ", or )");
	}
	return err;
}

static int parse_compare(struct parser *parser, struct filter_node **node)
{
	struct filter_operand left, right;
	bool negated;
	enum filter_op op;
	int err = parse_operand(parser, &left);

	if (err)
		return err;
	if (comparison_op(parser->token.kind, &op)) {
		err = advance(parser);
		if (!err)
			err = parse_operand(parser, &right);
		if (!err)
			err = filter_compare(parser->tree, parser->catalog, &left, op, &right, node,
					     parser->error);
		return err;
	}
	negated = parser->token.kind == TOKEN_NOT;
	if (negated)
		err = advance(parser);
	if (err)
		return err;
	if (token_is_word(&parser->token, "in")) {
		if (left.kind != OPERAND_SUBJECT && left.kind != OPERAND_BITS)
			return filter_refuse(parser->error, left.column, "filter-constant",
					     "a name stands before in");
		err = advance(parser);
		return err ? err : parse_list(parser, &left, negated, node);
	}
	if (negated)
		return refuse_token(parser, "in");
	return filter_compare_nothing(parser->tree, &left, node, parser->error);
}

/* ---- Not, and, or ---------------------------------------------------------------------------- */

static int parse_not(struct parser *parser, struct filter_node **node)
{
	unsigned column = parser->token.column;
	struct filter_node *child;
	int err;

	if (parser->token.kind != TOKEN_NOT && parser->token.kind != TOKEN_OPEN)
		return parse_compare(parser, node);
	if (parser->depth == FILTER_DEPTH_MAX)
		return filter_refuse(parser->error, column, "filter-too-deep",
				     "parentheses and ! are nested deeper than %u",
				     FILTER_DEPTH_MAX);
	parser->depth++;
	if (parser->token.kind == TOKEN_OPEN) {
		err = advance(parser);
		if (!err)
			err = parse_or(parser, node);
		if (!err)
			err = take(parser, TOKEN_CLOSE, "&&, || or )");
	} else {
		err = advance(parser);
		if (!err)
			err = parse_not(parser, &child);
		if (!err)
			err = filter_tree_node(parser->tree, NODE_NOT, column, node, parser->error);
		if (!err)
			filter_node_add(*node, child);
	}
	parser->depth--;
	return err;
}

/* One or more of `rule`, with `sign` between them, under a node of `kind` if there are more. */
static int parse_chain(struct parser *parser, enum filter_node_kind kind,
		       enum filter_token_kind sign,
		       int (*rule)(struct parser *, struct filter_node **),
		       struct filter_node **node)
{
	unsigned column = parser->token.column;
	struct filter_node *child;
	int err = rule(parser, &child);

	*node = child;
	if (err || parser->token.kind != sign)
		return err;
	err = filter_tree_node(parser->tree, kind, column, node, parser->error);
	if (err)
		return err;
	filter_node_add(*node, child);
	while (!err && parser->token.kind == sign) {
		err = advance(parser);
		if (!err)
			err = rule(parser, &child);
		if (!err)
			filter_node_add(*node, child);
	}
	return err;
}

static int parse_and(struct parser *parser, struct filter_node **node)
{
	return parse_chain(parser, NODE_AND, TOKEN_AND, parse_not, node);
}

static int parse_or(struct parser *parser, struct filter_node **node)
{
	return parse_chain(parser, NODE_OR, TOKEN_OR, parse_and, node);
}

int filter_parse(const char *text, const Ringtail__V1__Catalog *catalog, struct filter_tree *tree,
		 struct filter_node **root, struct error *error)
{
	struct parser parser = { .tree = tree, .catalog = catalog, .error = error };
	int err;

	filter_lexer_init(&parser.lexer, text, tree->text);
	err = advance(&parser);
	if (!err)
		err = parse_or(&parser, root);
	if (!err && parser.token.kind != TOKEN_END)
		err = refuse_token(&parser, "&& or ||");
	return err;
}
