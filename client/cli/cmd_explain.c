/*
 * cmd_explain: where the parts of a question run: in the kernel, in the daemon, here. Nothing is recorded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cmd.h"
#include "client/cli/request.h"
#include "client/cli/where.h"
#include "client/cli/who.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "proto/message.h"
#include "query/filter.h"
#include "query/probe_filter.h"
#include "query/probe_set.h"

/*
 * All that the daemon has; with a glob, what it has or can make of that name. `prints`: with the names of numbers,
 * which may be more than fits into an answer.
 */
static int ask_for_list(struct request *request, const char *glob, bool prints, Ringtail__V1__Catalog **catalog,
			struct ringtail_error *error)
{
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;
	const uint8_t *body;
	size_t bytes;
	int err;

	list.glob = (char *)glob;
	list.offers = *glob != '\0';
	list.prints = prints;
	err = request_send(request, FRAME_LIST, &list.base, error);
	if (!err)
		err = request_wait(request, FRAME_CATALOG, REPLY_TIMEOUT_MS, &body, &bytes, error);
	if (err)
		return err;
	*catalog = message_unpack(&ringtail__v1__catalog__descriptor, NULL, body, bytes);
	return *catalog ? 0 : failure_set(error, EBADMSG, "bad-catalog", "the daemon's list makes no sense");
}

static int ask_list(struct request *request, const char *glob, bool prints, Ringtail__V1__Catalog **catalog,
		    struct ringtail_error *error)
{
	int err = ask_for_list(request, glob, prints, catalog, error);

	return err && prints && !strcmp(error->code, "list-too-large") ?
		       ask_for_list(request, glob, false, catalog, error) : err;
}

static Ringtail__V1__Probe *find_probe(const Ringtail__V1__Catalog *catalog, const Ringtail__V1__Probe *probe)
{
	for (size_t i = 0; i < catalog->n_probe; i++)
		if (!strcmp(catalog->probe[i]->name, probe->name) &&
		    !strcmp(catalog->probe[i]->function, probe->function) &&
		    !strcmp(catalog->probe[i]->provider, probe->provider))
			return catalog->probe[i];
	return NULL;
}

/* The names of its numbers, from a list that had room for them. */
static void swap_print(Ringtail__V1__Probe *probe, Ringtail__V1__Probe *from)
{
	char *print = probe->print;

	if (*print)
		return;
	probe->print = from->print;
	from->print = print;
}

/* Takes those of `from` that are not there yet, and what those that are there lack. */
static int add_probes(Ringtail__V1__Catalog *catalog, Ringtail__V1__Catalog *from, struct ringtail_error *error)
{
	Ringtail__V1__Probe **probe = realloc(catalog->probe, (catalog->n_probe + from->n_probe + 1) * sizeof(*probe));
	size_t left = 0;

	if (!probe)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	catalog->probe = probe;
	for (size_t i = 0; i < from->n_probe; i++) {
		Ringtail__V1__Probe *known = find_probe(catalog, from->probe[i]);

		if (known) {
			swap_print(known, from->probe[i]);
			from->probe[left++] = from->probe[i];
		} else {
			probe[catalog->n_probe++] = from->probe[i];
		}
	}
	from->n_probe = left;
	return 0;
}

/*
 * All that the daemon has, and what it can make of the probes that are asked for. What is not made has no number yet:
 * here, each gets one below those of programs' probes, which keep theirs.
 */
static int ask_catalog(const char *address, const struct who *who, Ringtail__V1__Catalog **catalog,
		       bool *daemon_counts, struct ringtail_error *error)
{
	struct request *request;
	uint32_t next = 0;
	int err = request_open(address, -1, &request, error);

	if (err)
		return err;
	*daemon_counts = request_host(request)->has_counts;
	err = ask_list(request, "", who->filter != NULL, catalog, error);
	for (size_t i = 0; !err && i < who->probes; i++) {
		Ringtail__V1__Catalog *more = NULL;

		err = ask_list(request, who->probe[i], who->filter != NULL, &more, error);
		if (!err)
			err = add_probes(*catalog, more, error);
		if (more)
			protobuf_c_message_free_unpacked(&more->base, NULL);
	}
	for (size_t i = 0; !err && i < (*catalog)->n_probe && next < RT_PROBE_PROGRAM; i++)
		if ((*catalog)->probe[i]->id < RT_PROBE_PROGRAM)
			(*catalog)->probe[i]->id = next++;
	request_close(request);
	return err;
}

static void print_test(const char *name, uint8_t op, const char *value, bool *first)
{
	if (op == RT_FILTER_ANY)
		return;
	printf("%s%s %s %s", *first ? "" : " && ", name, op == RT_FILTER_EQ ? "==" : "!=", value);
	*first = false;
}

static void print_clause(const struct rt_filter_clause *clause)
{
	char number[16], comm[RT_COMM_BYTES + 3];
	bool first = true;

	snprintf(number, sizeof(number), "%u", clause->pid);
	print_test("pid", clause->pid_op, number, &first);
	snprintf(number, sizeof(number), "%u", clause->tid);
	print_test("tid", clause->tid_op, number, &first);
	snprintf(number, sizeof(number), "%u", clause->uid);
	print_test("uid", clause->uid_op, number, &first);
	snprintf(comm, sizeof(comm), "\"%.16s\"", clause->comm);
	print_test("comm", clause->comm_op, comm, &first);
}

static void print_kernel(const struct filter *filter)
{
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
	unsigned clauses = filter_kernel_clauses(filter, clause, RT_FILTER_CLAUSES_MAX);

	printf("kernel  records ");
	if (!clauses)
		printf("these events of every process: %s", filter ?
		       "the filter does not narrow pid, tid, uid or comm, or to more than a few" :
		       "there is no filter");
	else
		printf("these events only where ");
	for (unsigned i = 0; i < clauses; i++) {
		printf("%s", i ? " || " : "");
		print_clause(&clause[i]);
	}
	printf("\n");
}

/* Of so many probes of programs, by what of the filter a program asks. */
struct asked {
	unsigned whole, part, nothing;
};

/* The last field of each is the daemon's. Returns how many probes the kernel has. */
static unsigned ask_programs(const struct probe_set *set, const struct filter *filter,
			     const Ringtail__V1__Catalog *catalog, struct asked *asked)
{
	unsigned others = 0;

	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];
		struct probe_filter made;

		if (!probe_set_test(set, probe->id))
			continue;
		if (probe->id < RT_PROBE_PROGRAM || !probe->n_field) {
			others++;
			continue;
		}
		probe_filter_init(&made);
		filter_narrow(filter, (uint16_t)probe->id, (uint32_t)probe->n_field - 1, &made);
		if (made.whole && filter)
			asked->whole++;
		else if (made.first != RT_PROGRAM_PASS)
			asked->part++;
		else
			asked->nothing++;
	}
	return others;
}

/* A program of another language, or of a header of before, asks nothing. */
static void print_programs(const struct filter *filter, const struct asked *asked)
{
	if (!filter) {
		printf("program writes each event of %u probes: there is no filter\n", asked->nothing);
		return;
	}
	printf("program asks before it writes an event:");
	if (asked->whole)
		printf(" the whole filter, of %u probes;", asked->whole);
	if (asked->part)
		printf(" a part of it, of %u probes;", asked->part);
	if (asked->nothing)
		printf(" nothing, of %u probes;", asked->nothing);
	printf(" in Python, Go and Rust nothing\n");
}

static void print_daemon(const struct filter *filter, const char *text)
{
	printf("daemon  ");
	if (filter)
		printf("passes on what the whole filter lets through: %s\n", text);
	else
		printf("passes on every event that was recorded\n");
	if (filter_asks_strings(filter))
		printf("        the filter turns strings on, which the kernel then reads for each event\n");
	if (filter_asks_context(filter))
		printf("        the filter asks for context, which the kernel records with each thread\n");
}

/* Whether a question asks how many events there are of each probe, and no more: of whom, the kernel's clauses say. */
static bool is_plain(const struct settings *settings, const struct where *where, const struct filter *filter)
{
	static const char *const plain[] = { "probe", "provider", "function", "name", "cpu", "host" };
	bool is = !settings->of && !settings->interval && (!filter || filter_is_of_kernel(filter));

	for (size_t i = 0; i < where->asked.bys && is; i++) {
		is = false;
		for (size_t k = 0; k < sizeof(plain) / sizeof(plain[0]) && !is; k++)
			is = strcmp(where->by[i], plain[k]) == 0;
	}
	return is;
}

/* Counted in one place, and told why where that is here. */
static void print_counting(const struct settings *settings, const char *command, const struct filter *filter,
			   bool daemon_counts)
{
	const struct answer_question question = {
		.by = settings->by, .interval_ns = settings->interval, .from = settings->from, .to = settings->to,
	};
	struct where where;
	const char *why = where_choose(settings, &question, &where);

	if (!why && !daemon_counts)
		why = "the daemon is too old for it";
	if (why)
		printf("client  counts every event itself: %s\n", why);
	else
		printf("daemon  counts, and sends tables\nclient  adds them up\n");
	if (!why && strcmp(command, "count") == 0 && is_plain(settings, &where, filter))
		printf("kernel  counts system calls and tracepoints itself, and records none of them, while nobody "
		       "wants more of them\n");
}

static void print_client(const struct settings *settings, const struct who *who, const char *command,
			 const struct filter *filter, bool daemon_counts)
{
	bool counts = strcmp(command, "stream") && strcmp(command, "record");

	if (who->tree)
		printf("client  chooses the processes of the tree, and those that they fork, of the events of all\n");
	if (counts)
		print_counting(settings, command, filter, daemon_counts);
	else if (!who->tree)
		printf("client  shows what comes\n");
}

static int explain(const struct settings *settings, const struct who *who, const char *command, bool daemon_counts,
		   const Ringtail__V1__Catalog *catalog, struct ringtail_error *error)
{
	struct probe_set set = { 0 };
	struct filter *filter = NULL;
	struct asked asked = { 0 };
	struct error why = { 0 };
	unsigned others;
	int err = 0;

	for (size_t i = 0; !err && i < who->probes; i++)
		err = probe_set_add_glob(&set, who->probe[i], catalog, &why);
	if (!err)
		err = filter_compile(who->filter ? who->filter : "", catalog, &filter, &why);
	if (err)
		return failure_of(error, err, &why);
	if (who->probes)
		printf("probes  %u of %zu\n", probe_set_count(&set), catalog->n_probe);
	else
		printf("probes  those that are always on\n");
	others = ask_programs(&set, filter, catalog, &asked);
	if (others || !who->probes)
		print_kernel(filter);
	if (asked.whole || asked.part || asked.nothing)
		print_programs(filter, &asked);
	print_daemon(filter, who->filter);
	print_client(settings, who, command, filter, daemon_counts);
	filter_destroy(filter);
	return 0;
}

enum exit_code cmd_explain(const struct settings *settings, const char *command)
{
	Ringtail__V1__Catalog *catalog = NULL;
	struct settings asked = *settings;
	struct ringtail_error error;
	bool daemon_counts = false;
	struct who who;
	int err;

	/* It is not executed. */
	asked.command = NULL;
	cmd_ask_pairs(&asked);
	if (settings->command)
		asked.tree.text[asked.tree.n++] = "1";
	if (who_create(&asked, "syscall:*:call", &who, &error))
		return cmd_usage_at(&error, command, error.column ? settings->filter : NULL);
	err = ask_catalog(settings->connect.text[0], &who, &catalog, &daemon_counts, &error);
	if (!err)
		err = explain(settings, &who, command, daemon_counts, catalog, &error);
	if (err)
		who_place(&who, &error);
	who_destroy(&who);
	if (catalog)
		protobuf_c_message_free_unpacked(&catalog->base, NULL);
	return err ? cmd_fail(&error, cmd_text_of(settings, &error)) : cmd_printed(EXIT_GOOD);
}
