#include "daemon/relay/sink.h"

#include <stdlib.h>

struct relay_opening *relay_opening_get(struct relay_opening *opening)
{
	opening->refs++;
	return opening;
}

void relay_opening_put(struct relay_opening *opening)
{
	if (!opening || --opening->refs)
		return;
	frame_ref_put(opening->hello);
	frame_ref_put(opening->catalog);
	frame_ref_put(opening->subscribed);
	free(opening->start);
	free(opening);
}
