#include "daemon/collect/pace.h"

#include "daemon/base/limits.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void pace_init(struct pace *pace, uint64_t interval_ns)
{
	*pace = (struct pace){.tick_ns = interval_ns, .credit_ns = PACE_CREDIT_NS_MAX};
}

void pace_wake(struct pace *pace, uint64_t now_ns, uint64_t interval_ns)
{
	uint64_t saved = pace->credit_ns + (pace->woken_ns ? now_ns - pace->woken_ns : 0);
	bool can_pay;

	pace->credit_ns = least(saved, PACE_CREDIT_NS_MAX);
	pace->woken_ns = now_ns;
	can_pay = pace->credit_ns >= PACE_WAKE_NS;
	if (can_pay)
		pace->credit_ns -= PACE_WAKE_NS;
	pace->tick_ns = least(can_pay ? PACE_FIRST_NS : PACE_REST_NS, interval_ns);
}

/*
 * So many of a pass's records came in a tick of PACE_REST_NS. Longer ticks are judged by that: a rate that does not
 * lengthen the shortest of them shortens every other, so a burst of the past does not delay what comes after it.
 */
static uint64_t records_at_rest(const struct pace *pace, uint64_t records)
{
	if (pace->tick_ns <= PACE_REST_NS)
		return records;
	return records * (PACE_REST_NS / 1000) / (pace->tick_ns / 1000);
}

bool pace_pass(struct pace *pace, uint64_t records, uint64_t interval_ns)
{
	uint64_t at_rest;

	pace->tick_ns = least(pace->tick_ns, interval_ns);
	at_rest = records_at_rest(pace, records);
	if (at_rest >= PACE_MANY)
		pace->tick_ns = least(2 * pace->tick_ns, interval_ns);
	else if (records >= PACE_FEW && pace->tick_ns < PACE_REST_NS)
		pace->tick_ns = least(PACE_REST_NS, interval_ns);
	else if (records < PACE_FEW && pace->tick_ns <= PACE_REST_NS)
		return false;
	else if (pace->tick_ns > PACE_REST_NS && at_rest < PACE_MANY / 2)
		pace->tick_ns /= 2;
	return records > 0;
}

void pace_hold(struct pace *pace, uint64_t interval_ns)
{
	pace->tick_ns = least(2 * pace->tick_ns, interval_ns);
}

uint64_t pace_slack(const struct pace *pace, uint64_t interval_ns)
{
	return least(pace->tick_ns / 2, interval_ns / WATERMARK_SLACK_PART);
}
