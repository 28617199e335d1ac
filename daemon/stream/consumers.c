#include "daemon/stream/consumers.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/disk/disk.h"
#include "daemon/base/log.h"
#include "proto/limits.h"

#define CONSUMERS_FILE "consumers"
#define CONSUMERS_FILE_NEW "consumers.new"

struct consumers {
	struct disk_thread *thread;
	struct consumer_list list;
	unsigned count;
	bool dirty;			/* another save must follow the one that is under way */
	struct save *saving;
	void (*saved)(void *context, int err);	/* NULL: nobody waits for it */
	void *context;
};

/* One write of the whole file, on the disk thread. */
struct save {
	struct disk_job job;
	struct consumers *consumers;	/* NULL: nobody waits for it any more */
	char *text;
	size_t bytes;
	int err;
};

/* ---- The list -------------------------------------------------------------------------------- */

struct consumer_list *consumers_list(struct consumers *consumers)
{
	return &consumers->list;
}

struct consumer *consumers_find(struct consumers *consumers, const char *name)
{
	struct consumer *consumer;

	TAILQ_FOREACH(consumer, &consumers->list, link)
		if (strcmp(consumer->name, name) == 0)
			return consumer;
	return NULL;
}

static bool is_name(const char *name)
{
	size_t bytes = strlen(name);

	if (!bytes || bytes > CONSUMER_NAME_BYTES_MAX || name[0] == '.' || name[0] == '-')
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
			return false;
	return true;
}

static void free_request(struct consumer *consumer)
{
	for (size_t i = 0; i < consumer->globs; i++)
		free(consumer->glob[i]);
	free(consumer->glob);
	free(consumer->filter);
}

void consumer_free(struct consumer *consumer)
{
	if (!consumer)
		return;
	free_request(consumer);
	free(consumer->place);
	free(consumer->began);
	for (unsigned i = 0; i < consumer->runs; i++)
		free(consumer->sent[i]);
	free(consumer);
}

/* What it asks for. False: out of memory. */
static bool copy_request(struct consumer *consumer, const struct subscription_request *request)
{
	consumer->flags = request->flags;
	consumer->filter = strdup(request->filter ? request->filter : "");
	consumer->glob = calloc(request->globs + 1, sizeof(*consumer->glob));
	for (size_t i = 0; consumer->glob && i < request->globs; i++) {
		consumer->glob[i] = strdup(request->glob[i]);
		if (!consumer->glob[i])
			return false;
		consumer->globs++;
	}
	return consumer->filter && consumer->glob;
}

static struct consumer *copy(const char *name, const char *owner,
			     const struct subscription_request *request)
{
	struct consumer *consumer = calloc(1, sizeof(*consumer));

	if (!consumer)
		return NULL;
	memcpy(consumer->name, name, strlen(name));
	snprintf(consumer->owner, sizeof(consumer->owner), "%s", owner);
	if (copy_request(consumer, request))
		return consumer;
	consumer_free(consumer);
	return NULL;
}

bool consumer_name_is_export(const char *name)
{
	return strncmp(name, CONSUMER_EXPORT_PREFIX, strlen(CONSUMER_EXPORT_PREFIX)) == 0;
}

bool consumer_name_is_own(const char *name)
{
	return consumer_name_is_export(name) || strcmp(name, CONSUMER_RELAY) == 0;
}

unsigned consumers_count(const struct consumers *consumers, const char *owner, unsigned *its_own)
{
	const struct consumer *consumer;
	unsigned clients = 0;

	*its_own = 0;
	TAILQ_FOREACH(consumer, &consumers->list, link) {
		clients += !consumer_name_is_own(consumer->name);
		*its_own += strcmp(consumer->owner, owner) == 0;
	}
	return clients;
}

bool consumer_is_open_to(const struct consumer *consumer, const struct client_identity *identity)
{
	return identity->role >= ROLE_OPERATOR || strcmp(consumer->owner, identity->text) == 0;
}

int consumer_refuse(const char *name, struct error *error)
{
	error_set(error, EPERM, "consumer-not-yours",
		  "the durable consumer '%.80s' is another client's", name);
	error_hint(error, "use another name; or ask an operator, who may use and remove it");
	return -EPERM;
}

int consumers_add(struct consumers *consumers, const char *name, const char *owner,
		  const struct subscription_request *request, struct consumer **out,
		  struct error *error)
{
	struct consumer *consumer;

	if (!is_name(name)) {
		error_set(error, EINVAL, "consumer-name",
			  "'%.80s' is no name for a durable consumer", name);
		error_hint(error, "at most %u letters, digits, '.', '_' and '-'; not first '.' or '-'",
			   CONSUMER_NAME_BYTES_MAX);
		return -EINVAL;
	}
	if (consumers->count >= CONSUMERS_MAX) {
		error_set(error, ENOSPC, "too-many-consumers",
			  "there are %u durable consumers already", CONSUMERS_MAX);
		error_hint(error, "remove one: tracectl forget NAME");
		return -ENOSPC;
	}
	consumer = copy(name, owner, request);
	if (!consumer)
		return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	TAILQ_INSERT_TAIL(&consumers->list, consumer, link);
	consumers->count++;
	consumers_save(consumers);
	*out = consumer;
	return 0;
}

int consumers_change(struct consumers *consumers, struct consumer *consumer,
		     const struct subscription_request *request, struct error *error)
{
	struct consumer next = {0};

	if (!copy_request(&next, request)) {
		free_request(&next);
		return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	}
	free_request(consumer);
	consumer->glob = next.glob;
	consumer->globs = next.globs;
	consumer->filter = next.filter;
	consumer->flags = next.flags;
	consumer->spool[0] = '\0';
	consumers_save(consumers);
	return 0;
}

void consumers_remove(struct consumers *consumers, struct consumer *consumer)
{
	TAILQ_REMOVE(&consumers->list, consumer, link);
	consumers->count--;
	consumer_free(consumer);
	consumers_save(consumers);
}

static int differs(const struct consumer *consumer, const char *what, struct error *error)
{
	error_set(error, EINVAL, "consumer-differs",
		  "the durable consumer '%s' is registered with other %s", consumer->name, what);
	error_hint(error, "subscribe with the same probes and filter, use another name, or remove it"
			  " first: tracectl forget %s", consumer->name);
	return -EINVAL;
}

int consumers_compare(const struct consumer *consumer, const struct subscription_request *request,
		      struct error *error)
{
	if (consumer->globs != request->globs)
		return differs(consumer, "probes", error);
	for (size_t i = 0; i < request->globs; i++)
		if (strcmp(consumer->glob[i], request->glob[i]) != 0)
			return differs(consumer, "probes", error);
	if (strcmp(consumer->filter, request->filter ? request->filter : "") != 0)
		return differs(consumer, "filter", error);
	if (consumer->flags != request->flags)
		return differs(consumer, "flags", error);
	return 0;
}

/* ---- Acknowledging --------------------------------------------------------------------------- */

/* No position goes back. */
static int advance(struct cursor **place, uint32_t cpu, uint64_t seq)
{
	return cursor_seq(*place, cpu, 0) > seq ? 0 : cursor_add(place, cpu, seq);
}

/* The places of that run, which is made if there is room. NULL: there is none. */
static struct cursor **find_run(struct consumer *consumer, const struct run *run)
{
	struct cursor *made;

	for (unsigned i = consumer->runs; i-- > 0;)
		if (run_equal(&consumer->sent[i]->run, run))
			return &consumer->sent[i];
	made = cursor_create(0);
	if (!made)
		return NULL;
	made->run = *run;
	if (consumer->runs == CONSUMER_RUNS_MAX) {
		free(consumer->sent[0]);
		memmove(&consumer->sent[0], &consumer->sent[1],
			--consumer->runs * sizeof(consumer->sent[0]));
	}
	consumer->sent[consumer->runs] = made;
	return &consumer->sent[consumer->runs++];
}

void consumer_note_sent(struct consumer *consumer, const struct run *run, uint32_t cpu,
			uint64_t seq)
{
	struct cursor **sent = find_run(consumer, run);

	if (sent && advance(sent, cpu, seq) != 0)
		return;				/* it is sent again before it can be acknowledged */
}

static uint64_t upto_of(const struct cursor *place, const struct run *run, uint32_t cpu)
{
	return place && run_equal(&place->run, run) ? cursor_seq(place, cpu, 0) : 0;
}

uint64_t consumer_sent_upto(const struct consumer *consumer, const struct run *run, uint32_t cpu)
{
	uint64_t upto = upto_of(consumer->place, run, cpu);

	for (unsigned i = 0; i < consumer->runs; i++) {
		uint64_t sent = upto_of(consumer->sent[i], run, cpu);

		if (sent > upto)
			upto = sent;
	}
	return upto;
}

int consumer_acknowledge(struct consumer *consumer, const struct cursor *upto, uint64_t realtime_ns)
{
	int err = 0;

	if (!run_is_named(&upto->run) ||
	    (consumer->place && upto->run.epoch < consumer->place->run.epoch))
		return 0;
	if (!consumer->place)
		consumer->place = cursor_create(upto->n);
	if (!consumer->place)
		return -ENOMEM;
	if (!run_equal(&consumer->place->run, &upto->run)) {
		consumer->place->run = upto->run;
		consumer->place->n = 0;
	}
	for (uint32_t i = 0; i < upto->n && !err; i++)
		err = advance(&consumer->place, upto->position[i].cpu, upto->position[i].seq);
	consumer->acked_realtime_ns = realtime_ns;
	return err;
}

#define FIRST_LINE "ringtail consumers 1"

/* ---- The text -------------------------------------------------------------------------------- */

static void print_text(FILE *to, const char *key, const char *text)
{
	fprintf(to, "%s ", key);
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || *text == '%' || *text == 0x7f)
			fprintf(to, "%%%02x", (unsigned char)*text);
		else
			fputc(*text, to);
	fputc('\n', to);
}

static void print_place(FILE *to, const struct cursor *place)
{
	if (!place)
		return;
	fputs("at ", to);
	for (unsigned i = 0; i < sizeof(place->run.boot_id); i++)
		fprintf(to, "%02x", place->run.boot_id[i]);
	fprintf(to, " %llu", (unsigned long long)place->run.epoch);
	for (uint32_t i = 0; i < place->n; i++)
		fprintf(to, " %u:%llu", place->position[i].cpu,
			(unsigned long long)place->position[i].seq);
	fputc('\n', to);
}

int consumers_print(const struct consumer_list *list, char **text, size_t *bytes)
{
	FILE *to = open_memstream(text, bytes);
	const struct consumer *consumer;
	bool failed;

	if (!to)
		return -ENOMEM;
	fputs(FIRST_LINE "\n", to);
	TAILQ_FOREACH(consumer, list, link) {
		fprintf(to, "consumer %s\n", consumer->name);
		if (consumer->owner[0])
			print_text(to, "owner", consumer->owner);
		fprintf(to, "flags %u\n", consumer->flags);
		if (consumer->spool[0])
			fprintf(to, "spool %s\n", consumer->spool);
		fprintf(to, "acked %llu\n", (unsigned long long)consumer->acked_realtime_ns);
		if (consumer->account.acked || consumer->account.lost)
			fprintf(to, "account %llu %llu\n", (unsigned long long)consumer->account.acked,
				(unsigned long long)consumer->account.lost);
		print_text(to, "filter", consumer->filter);
		for (size_t i = 0; i < consumer->globs; i++)
			print_text(to, "probe", consumer->glob[i]);
		print_place(to, consumer->place);
		fputs("end\n", to);
	}
	failed = ferror(to);
	if (fclose(to) != 0 || failed) {
		free(*text);
		return -ENOMEM;
	}
	return 0;
}

/* ---- Parsing --------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. False: a '%' that is none of ours. */
static bool unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '%') {
			int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);

			if (low < 0 || !(high | low))
				return false;
			*to++ = (char)(high << 4 | low);
			text += 2;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
	return true;
}

static bool parse_u64(char **at, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*value = strtoull(*at, &end, 10);
	*at = end;
	return errno == 0;
}

static bool parse_place(char *at, struct cursor **place)
{
	struct run run = {0};
	uint64_t cpu, seq;

	for (unsigned i = 0; i < 2 * sizeof(run.boot_id); i++, at++) {
		int digit = hex_digit(*at);

		if (digit < 0)
			return false;
		run.boot_id[i / 2] = (uint8_t)(run.boot_id[i / 2] << 4 | digit);
	}
	if (*at++ != ' ' || !parse_u64(&at, &run.epoch))
		return false;
	*place = cursor_create(CURSOR_POSITIONS_MAX);
	if (!*place)
		return false;
	(*place)->run = run;
	while (*at)
		if (*at++ != ' ' || !parse_u64(&at, &cpu) || cpu > UINT32_MAX || *at++ != ':' ||
		    !parse_u64(&at, &seq) || !cursor_put(*place, (uint32_t)cpu, seq))
			return false;
	return true;
}

static bool parse_glob(struct consumer *consumer, char *value)
{
	char **larger;

	if (consumer->globs == SUBSCRIBE_PROBES_MAX || !unescape(value))
		return false;
	larger = reallocarray(consumer->glob, consumer->globs + 1, sizeof(*larger));
	if (!larger)
		return false;
	consumer->glob = larger;
	larger[consumer->globs] = strdup(value);
	return larger[consumer->globs] && ++consumer->globs;
}

static bool parse_spool(struct consumer *consumer, const char *value)
{
	if (consumer->spool[0] || !spool_name_is_valid(value))
		return false;
	memcpy(consumer->spool, value, SPOOL_NAME_BYTES);
	return true;
}

static bool parse_owner(struct consumer *consumer, char *value)
{
	if (consumer->owner[0] || !unescape(value) || !*value ||
	    strlen(value) >= sizeof(consumer->owner))
		return false;
	strcpy(consumer->owner, value);
	return true;
}

static bool parse_account(struct consumer_account *account, char *value)
{
	if (!parse_u64(&value, &account->acked) || *value++ != ' ' || !parse_u64(&value, &account->lost) || *value)
		return false;
	/* So that it closes until the spool is open. */
	account->stored = account->acked + account->lost;
	return true;
}

/* A line of a consumer's block. */
static bool parse_field(struct consumer *consumer, const char *key, char *value)
{
	uint64_t number;

	if (strcmp(key, "filter") == 0) {
		if (consumer->filter || strlen(value) > 3 * FILTER_BYTES_MAX || !unescape(value))
			return false;
		consumer->filter = strdup(value);
		return consumer->filter;
	}
	if (strcmp(key, "probe") == 0)
		return parse_glob(consumer, value);
	if (strcmp(key, "owner") == 0)
		return parse_owner(consumer, value);
	if (strcmp(key, "spool") == 0)
		return parse_spool(consumer, value);
	if (strcmp(key, "account") == 0)
		return parse_account(&consumer->account, value);
	if (strcmp(key, "at") == 0)
		return !consumer->place && parse_place(value, &consumer->place);
	if (!parse_u64(&value, &number) || *value)
		return false;
	if (strcmp(key, "acked") == 0)
		consumer->acked_realtime_ns = number;
	else if (strcmp(key, "flags") == 0 && number <= UINT32_MAX)
		consumer->flags = (uint32_t)number;
	else
		return false;
	return true;
}

static struct consumer *parse_name(const char *name)
{
	size_t bytes = strlen(name);
	struct consumer *consumer = bytes && bytes <= CONSUMER_NAME_BYTES_MAX ?
				    calloc(1, sizeof(*consumer)) : NULL;

	if (consumer)
		memcpy(consumer->name, name, bytes);
	return consumer;
}

/* One line; *open is the consumer whose block it is in. */
static bool parse_line(char *line, struct consumer **open, struct consumer_list *list,
		       unsigned *count)
{
	char *value = strchr(line, ' ');

	if (*open && strcmp(line, "end") == 0) {
		if (!(*open)->filter || *count == CONSUMERS_MAX)
			return false;
		(*open)->earlier = true;
		if ((*open)->place)
			(*open)->record = CONSUMER_SAVED;
		TAILQ_INSERT_TAIL(list, *open, link);
		(*count)++;
		*open = NULL;
		return true;
	}
	if (!value)
		return false;
	*value++ = '\0';
	if (*open)
		return parse_field(*open, line, value);
	*open = strcmp(line, "consumer") == 0 ? parse_name(value) : NULL;
	return *open;
}

int consumers_parse(char *text, size_t bytes, struct consumer_list *list, unsigned *count,
		    struct error *error)
{
	struct consumer *open = NULL;
	unsigned number = 0;
	bool good = memchr(text, '\0', bytes) == NULL;

	for (char *line = text, *end; good && *line; line = end + 1) {
		end = strchr(line, '\n');
		good = end;
		if (!end)
			break;
		*end = '\0';
		good = number++ ? parse_line(line, &open, list, count) :
				  strcmp(line, FIRST_LINE) == 0;
	}
	good = good && number && !open;
	consumer_free(open);
	if (good)
		return 0;
	error_set(error, EBADMSG, "consumers-unreadable",
		  "line %u of state-dir/consumers is not what was written there", number);
	error_hint(error, "move it away: durable consumers then begin anew");
	return -EBADMSG;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* On the disk thread: all of it, or what was there before. */
static void run_save(struct disk_job *job, struct disk *disk)
{
	struct save *save = (struct save *)job;

	save->err = disk_file_replace(disk, CONSUMERS_FILE, CONSUMERS_FILE_NEW, save->text,
				      save->bytes);
}

static void mark_saved(struct consumers *consumers, int err)
{
	struct consumer *consumer;

	TAILQ_FOREACH(consumer, &consumers->list, link)
		if (consumer->record == CONSUMER_SAVING)
			consumer->record = err ? CONSUMER_UNSAVED : CONSUMER_SAVED;
}

static void on_saved(struct disk_job *job)
{
	struct save *save = (struct save *)job;
	struct consumers *consumers = save->consumers;
	int err = save->err;

	if (save->err)
		log_error("consumers-save", "cannot save what durable consumers have acknowledged: %s;"
			  " after a crash they may get some of it again", strerror(-save->err));
	free(save->text);
	free(save);
	if (!consumers)
		return;
	consumers->saving = NULL;
	mark_saved(consumers, err);
	if (consumers->dirty)
		consumers_save(consumers);
	if (consumers->saved)
		consumers->saved(consumers->context, err);
}

void consumers_set_saved(struct consumers *consumers, void (*saved)(void *context, int err),
			 void *context)
{
	consumers->saved = saved;
	consumers->context = context;
}

void consumers_save(struct consumers *consumers)
{
	struct consumer *consumer;
	struct save *save;

	consumers->dirty = true;
	if (consumers->saving)
		return;
	save = calloc(1, sizeof(*save));
	if (!save || consumers_print(&consumers->list, &save->text, &save->bytes) != 0) {
		free(save);
		return;			/* it stays dirty: the next one tries again */
	}
	TAILQ_FOREACH(consumer, &consumers->list, link)
		if (consumer->record == CONSUMER_UNSAVED && consumer->place)
			consumer->record = CONSUMER_SAVING;
	save->job.run = run_save;
	save->job.done = on_saved;
	save->consumers = consumers;
	consumers->saving = save;
	consumers->dirty = false;
	disk_thread_submit(consumers->thread, &save->job);
}

bool consumers_are_given(const struct consumers *consumers)
{
	return !consumers->dirty;
}

/* ---- Life ------------------------------------------------------------------------------------ */

int consumers_create(struct disk *disk, struct disk_thread *thread, struct consumers **out,
		     struct error *error)
{
	struct consumers *consumers = calloc(1, sizeof(*consumers));
	size_t bytes;
	char *text;
	int err;

	if (!consumers)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	consumers->thread = thread;
	TAILQ_INIT(&consumers->list);
	err = disk_file_read(disk, CONSUMERS_FILE, CONSUMERS_FILE_BYTES_MAX, &text, &bytes);
	if (err == -ENOENT) {
		err = 0;
	} else if (err) {
		error_set(error, -err, "consumers-unreadable",
			  "cannot read state-dir/" CONSUMERS_FILE ": %s", strerror(-err));
	} else {
		err = consumers_parse(text, bytes, &consumers->list, &consumers->count, error);
	}
	free(text);
	if (err) {
		consumers_destroy(consumers);
		return err;
	}
	*out = consumers;
	return 0;
}

void consumers_destroy(struct consumers *consumers)
{
	struct consumer *consumer;

	if (!consumers)
		return;
	if (consumers->saving && consumers->dirty) {
		/* In order: the newer one is behind the one that is under way. */
		consumers->saving->consumers = NULL;
		consumers->saving = NULL;
		consumers_save(consumers);
	}
	if (consumers->saving)
		consumers->saving->consumers = NULL;
	while ((consumer = TAILQ_FIRST(&consumers->list))) {
		TAILQ_REMOVE(&consumers->list, consumer, link);
		consumer_free(consumer);
	}
	free(consumers);
}
