#include "daemon/serve/answers_consumer.h"

#include <stdlib.h>

#include "daemon/base/limits.h"

struct answers_consumers {
	size_t n;
	Ringtail__V1__ConsumerStat *list[CONSUMERS_MAX];
	Ringtail__V1__ConsumerStat stat[CONSUMERS_MAX];
};

static void fill(void *context, const struct fanout_consumer_stat *now)
{
	struct answers_consumers *consumers = context;
	Ringtail__V1__ConsumerStat *stat = &consumers->stat[consumers->n];

	if (consumers->n == CONSUMERS_MAX)
		return;
	ringtail__v1__consumer_stat__init(stat);
	stat->name = (char *)now->name;
	stat->spool = (char *)now->spool;
	stat->owner = (char *)now->owner;
	stat->connected = now->connected;
	stat->behind_bytes = now->behind_bytes;
	stat->acked_realtime_ns = now->acked_realtime_ns;
	stat->exporter = now->exporter;
	consumers->list[consumers->n++] = stat;
}

struct answers_consumers *answers_consumers_fill(const struct fanout *fanout,
						 Ringtail__V1__Stat *stat)
{
	struct answers_consumers *consumers = calloc(1, sizeof(*consumers));

	if (!consumers)
		return NULL;
	fanout_each_consumer(fanout, fill, consumers);
	stat->consumer = consumers->list;
	stat->n_consumer = consumers->n;
	return consumers;
}

void answers_consumers_destroy(struct answers_consumers *consumers)
{
	free(consumers);
}
