"""Mutants of what a client is sent and told: its ledger, gaps in their place, the way to the disk, and what
memory-max takes."""
STREAM = "daemon/stream/stream.c"
MEMORY = "daemon/stream/subscriptions.c"

SENDING = ["unit/stream"]
CATCHING = ["unit/catch_up"]
ALL_LOGS = ["unit/fanout_memory_max"]

MUTANTS = [
    # The ledger.
    ("stream-skips-sent-uncounted", STREAM,
     "		stream->delivered += frame->events;\n		stream->filtered += frame->skipped;\n"
     "		count_losses(stream, frame);\n		/* A frame",
     "		stream->delivered += frame->events;\n		count_losses(stream, frame);\n		/* A frame", SENDING),
    ("stream-skips-dropped-uncounted", STREAM,
     "		stream->filtered += frame->skipped;\n		stream->lost[RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE][reason]",
     "		stream->lost[RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE][reason]", SENDING),
    ("stream-drops-uncounted", STREAM,
     "		stream->lost[RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE][reason] += frame->events;\n", "", SENDING),
    ("stream-losses-within-what-is-dropped-uncounted", STREAM,
     "		stream->drop_reason = reason;\n		count_losses(stream, frame);\n",
     "		stream->drop_reason = reason;\n", SENDING),
    ("stream-gap-without-the-losses-within", STREAM,
     "		uint64_t events = frame->events + frame_ref_losses(frame);", "		uint64_t events = frame->events;",
     SENDING),
    ("stream-gap-of-the-last-alone", STREAM, "		ring->gap_events += events;", "		ring->gap_events = events;",
     SENDING),
    ("stream-gap-untold-after-skips", STREAM, "		ring->gap |= events != 0;", "		ring->gap = events != 0;", SENDING),
    ("stream-gap-told-again", STREAM, "	ring->gap = false;\n	ring->gap_events = 0;", "	ring->gap = false;", SENDING),
    ("stream-gap-from-where-the-last-began", STREAM,
     "	ring->gap_events = 0;\n	ring->told = ring->seen;", "	ring->gap_events = 0;", SENDING),
    ("stream-gap-of-another-reason", STREAM,
     "	if (!ring->gap_events) {\n		gap.stage", "	if (true) {\n		gap.stage", SENDING),
    ("stream-places-untold-after-gaps", STREAM, "	stream->gaps = !tell_places(stream, tell, context);",
     "	(void)tell_places;\n	stream->gaps = false;", SENDING),
    ("stream-places-without-skips", STREAM,
     "		at->skipped = stream->ring[i].seen - stream->ring[i].told;", "		at->skipped = 0;", SENDING),
    ("stream-place-goes-back-with-a-frame-in-parts", STREAM,
     "		if (ring->seen < frame->end_seq)\n			ring->seen", "		if (true)\n			ring->seen", SENDING),
    ("stream-begun-watermark-told-at-its-end", STREAM,
     "	if (stream->begun->type == FRAME_WATERMARK)\n		account_sent(stream, stream->begun);\n}",
     "}", SENDING,
     ),
    ("stream-begun-watermark-accounted-again", STREAM, "	if (stream->begun->type != FRAME_WATERMARK)\n		account",
     "	if (true)\n		account", SENDING),
    ("stream-begun-not-in-flight", STREAM,
     "		stat->in_flight += frame_ref_attempts(stream->begun);", "		stat->in_flight += 0;", SENDING),
    ("stream-drops-what-is-older-than-half", STREAM,
     "	       lag_bytes(stream) > stream->lag_bytes_max / 2)", "	       lag_bytes(stream) > 0)", SENDING),
    ("stream-lags-without-a-bound", STREAM, "	if (!stream_in_log(stream) || lag_bytes(stream) <= stream->lag_bytes_max || ",
     "	if (!stream_in_log(stream) || stream || ", SENDING),
    ("stream-history-is-lag", STREAM,
     "	uint64_t from = stream->next > stream->joined ? stream->next : stream->joined;",
     "	uint64_t from = stream->next;", SENDING + ["unit/fanout"]),
    ("stream-evicted-unnoticed", STREAM, "stream->next == serial && !falls_back(stream))",
     "stream->next == serial && !falls_back(stream) && !frame)", SENDING),

    # To the disk, and back.
    ("catch-up-falls-back-in-mid-frame", STREAM,
     "	return begun && frame_ref_is_range(begun) && begun->ring == ring ? begun->end_seq :\n",
     "	return begun && frame_ref_is_range(begun) && begun->ring == UINT32_MAX ? begun->end_seq :\n", CATCHING),

    # Logs, one and all.
    ("memory-max-takes-what-is-needed-first", MEMORY, "		struct subscription *from = largest(all, idle_bytes);",
     "		struct subscription *from = NULL;\n\n		(void)idle_bytes;", ALL_LOGS),
    ("memory-max-takes-of-the-smallest", MEMORY, "		if (its > most) {", "		if (its && (!most || its < most)) {",
     ALL_LOGS),
    ("memory-max-takes-of-the-first", MEMORY, "		if (its > most) {", "		if (its && !most) {", ALL_LOGS),
    ("memory-max-needed-of-the-fastest", MEMORY, "		if (stream_in_log(stream) && stream->next < from)",
     "		if (stream_in_log(stream))", ALL_LOGS),
    ("memory-max-needed-by-who-reads-the-disk", MEMORY, "		if (stream_in_log(stream) && stream->next < from)",
     "		if (stream->next < from)", ALL_LOGS),

    # The main loop, and durable consumers.
]
