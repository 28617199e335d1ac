"""Mutants of what is told of skips: of ranges that have no frame of their own, with the next watermark that there is
memory for."""
FANOUT = "daemon/stream/fanout.c"
SUBSCRIPTION = "daemon/stream/subscription.c"
MEMORY = ["unit/fanout_watermark", "unit/fanout"]

MUTANTS = [
    ("skips-forgotten-after-two-failed-watermarks", FANOUT,
     "	if (!frame)\n		return NULL;\n	frame->time_ns = subscription->watermark_ns = time_ns;",
     "	memset(subscription->quiet, 0, fanout->rings.n * sizeof(*subscription->quiet));\n"
     "	if (!frame)\n		return NULL;\n	frame->time_ns = subscription->watermark_ns = time_ns;", MEMORY),
    ("watermark-skips-of-the-last-range-alone", SUBSCRIPTION,
     "		subscription->quiet[frame->ring] += frame_ref_attempts(frame);",
     "		subscription->quiet[frame->ring] = frame_ref_attempts(frame);", MEMORY),
    ("watermark-skips-told-again", FANOUT,
     "	memset(subscription->quiet, 0, fanout->rings.n * sizeof(*subscription->quiet));\n", "", MEMORY),
    ("watermark-skips-told-with-the-frame-too", SUBSCRIPTION,
     "		subscription->quiet[frame->ring] = 0;\n", "		;\n", MEMORY,
     "a watermark has told of them before: take_frame() lets no frame pass without"),
    ("watermark-owed-behind-the-frame", "daemon/stream/fanout.c:take_frame",
     "	if (frame->bytes && subscription->quiet[frame->ring] &&", "	if (frame->bytes && !subscription &&", MEMORY),
    ("watermark-of-the-fastest-worker", "daemon/stream/fanout.c:take_watermark",
     "		if (fanout->worker_time_ns[i] < time_ns)", "		if (fanout->worker_time_ns[i] > time_ns || !i)", MEMORY),
    ("watermark-goes-back", "daemon/stream/fanout.c:take_watermark", "	if (time_ns > fanout->watermark_ns)", "	if (time_ns)",
     MEMORY),
    ("watermark-behind-the-bye", "daemon/stream/fanout.c:take_watermark", " && !subscription->ended)", ")", MEMORY),
    ("watermark-of-a-subscription-that-is-not-live", "daemon/stream/fanout.c:take_watermark",
     "subscription->state == SUBSCRIPTION_LIVE && ", "", MEMORY),
    ("frame-behind-the-bye", "daemon/stream/fanout.c:take_frame", " || subscription->ended) {", ") {", MEMORY),
]
