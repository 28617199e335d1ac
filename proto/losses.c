#include "proto/losses.h"

#include <assert.h>

#include "proto/ringtail.pb-c.h"

static_assert((int)LOSS_STAGE_RING == RINGTAIL__V1__LOSS_STAGE__LOSS_RING &&
	      (int)LOSS_STAGE_DECODE == RINGTAIL__V1__LOSS_STAGE__LOSS_DECODE &&
	      (int)LOSS_STAGE_QUEUE == RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE &&
	      (int)LOSS_STAGE_HISTORY == RINGTAIL__V1__LOSS_STAGE__LOSS_HISTORY &&
	      (int)LOSS_STAGE_SPOOL == RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL &&
	      (int)LOSS_STAGE_EXPORT == RINGTAIL__V1__LOSS_STAGE__LOSS_EXPORT, "enum loss_stage is that of the wire");

#define LOSS_REASON(symbol, name, what, remedy) \
	static_assert((int)LOSS_REASON_##symbol == RINGTAIL__V1__LOSS_REASON__REASON_##symbol, \
		      "losses.def has the order of the wire");
#include "proto/losses.def"
#undef LOSS_REASON

static const struct loss_text texts[LOSS_REASONS] = {
#define LOSS_REASON(symbol, called, happened, to_do) \
	[LOSS_REASON_##symbol] = {.name = (called), .what = (happened), .remedy = (to_do)},
#include "proto/losses.def"
#undef LOSS_REASON
};

const struct loss_text *loss_text(unsigned reason)
{
	return &texts[reason < LOSS_REASONS ? reason : LOSS_REASON_UNKNOWN];
}
