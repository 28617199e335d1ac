#include "proto/losses.h"

#include "proto/ringtail.pb-c.h"

static const struct loss_reason reasons[] = {
#define LOSS_REASON(symbol, called, happened, to_do) \
	[RINGTAIL__V1__LOSS_REASON__REASON_##symbol] = { \
		.name = (called), .what = (happened), .remedy = (to_do), \
	},
#include "proto/losses.def"
#undef LOSS_REASON
};

const struct loss_reason *loss_reason(unsigned reason)
{
	if (reason >= sizeof(reasons) / sizeof(reasons[0]) || !reasons[reason].name)
		reason = RINGTAIL__V1__LOSS_REASON__REASON_UNKNOWN;
	return &reasons[reason];
}
