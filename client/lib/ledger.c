#include "client/lib/ledger.h"

#include <errno.h>
#include <string.h>

static struct ledger_cpu *find(struct ledger *ledger, uint32_t cpu)
{
	if (cpu >= CURSOR_POSITIONS_MAX)
		return NULL;
	if (cpu >= ledger->cpus)
		ledger->cpus = cpu + 1;
	return &ledger->cpu[cpu];
}

void ledger_restart(struct ledger *ledger)
{
	memset(ledger->cpu, 0, ledger->cpus * sizeof(*ledger->cpu));
	ledger->cpus = 0;
}

int ledger_start(struct ledger *ledger, uint32_t cpu, uint64_t seq)
{
	struct ledger_cpu *at = find(ledger, cpu);

	if (!at)
		return -ERANGE;
	if (!at->known)
		*at = (struct ledger_cpu){ .known = true, .seq = seq };
	/* The first batch of a connection may hold what the last one had brought already. */
	at->begins = true;
	return 0;
}

int ledger_span(struct ledger *ledger, uint32_t cpu, uint64_t first_seq, uint64_t end_seq)
{
	struct ledger_cpu *at = find(ledger, cpu);

	if (!at)
		return -ERANGE;
	if (end_seq < first_seq)
		return -EBADMSG;
	if (at->known && first_seq > at->seq)
		ledger->residual += first_seq - at->seq;
	if (first_seq < at->seq && !at->begins)
		ledger->residual += (at->seq < end_seq ? at->seq : end_seq) - first_seq;
	if (end_seq > at->seq) {
		at->seq = end_seq;
		at->begins = false;
	}
	at->known = true;
	return 0;
}

int ledger_watermark(struct ledger *ledger, uint32_t cpu, uint64_t seq, uint64_t skipped)
{
	struct ledger_cpu *at = find(ledger, cpu);

	if (!at)
		return -ERANGE;
	if (at->known && seq > at->seq && seq - at->seq > skipped)
		ledger->residual += seq - at->seq - skipped;
	if (seq > at->seq)
		at->seq = seq;
	at->known = true;
	return 0;
}

void ledger_cursor(const struct ledger *ledger, struct cursor *cursor)
{
	cursor->n = 0;
	for (uint32_t i = 0; i < ledger->cpus && cursor->n < cursor->capacity; i++)
		if (ledger->cpu[i].known)
			cursor_append(cursor, i, ledger->cpu[i].seq);
}
