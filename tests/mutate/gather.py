"""Mutants of the larger frames that a relay gets: when, of what, and that nothing is lost or told twice by them."""
GATHER = "daemon/stream/gather.c"
STREAM = "daemon/stream/stream.c"
REBATCH = "daemon/stream/rebatch.c"
UNIT = ["unit/gather"]

MUTANTS = [
    ("gather-waits-a-minute-for-what-was-recorded", GATHER + ":is_time", "!gather->news && ", "", UNIT),
    ("gather-tells-of-nothing-as-often", GATHER + ":is_time", "		wait_ns = RELAY_QUIET_NS;\n", "		;\n", UNIT),
    ("gather-waits-until-the-log-is-full", GATHER + ":is_time", " || is_full(stream)", "", UNIT),
    ("gather-waits-at-the-end", GATHER + ":is_time", " || stream->subscription->ended", "", UNIT),
    ("gather-waits-for-the-disk", GATHER + ":is_time", "stream->catch_up || ", "", UNIT),
    ("gather-decodes-large-ones", GATHER + ":is_small", " && frame->events < GATHER_EVENTS", "", UNIT),
    ("gather-joins-gaps", GATHER + ":is_small", "frame->type == FRAME_BATCH && ", "", UNIT),
    ("gather-moves-a-gap-of-no-size", GATHER + ":can_move",
     "	if (frame->type == FRAME_GAP && frame->first_seq == frame->end_seq)\n		return false;\n", "", UNIT),
    ("gather-joins-rings", GATHER + ":end_of_group", "ready[i]->ring == ready[first]->ring && ", "", UNIT),
    ("gather-has-no-time-to-tell", GATHER + ":take_by_ring", "			gather->time_ns = frame->time_ns;\n",
     "			;\n", UNIT),
    ("gather-ends-before-it-has-told", GATHER + ":gather_go_on", "	if (!n && gather->time_ns)\n		return;\n",
     "", UNIT),
    ("gather-leaves-the-rest-for-the-next-time", GATHER + ":gather_go_on", "	if (!stream_source(stream, 0))\n", "",
     UNIT),
    ("gather-in-flight-untold", GATHER + ":gather_stat", "stat->in_flight += frame_ref_attempts",
     "stat->in_flight += 0 * frame_ref_attempts", UNIT),
    ("gather-sent-again-off-the-disk", STREAM + ":falls_back", "	if (back && stream->gather)\n"
     "		gather_forget(stream->gather);\n", "", UNIT),
    ("gather-dropped-behind-what-follows", STREAM + ":drop_next", "	if (stream->gather)\n"
     "		drop_gathered(stream, reason);\n", "", UNIT),
    ("gather-time-told-and-kept", STREAM + ":tell_time", "	gather_told(stream->gather);\n", "", UNIT),
    ("rebatch-joined-threads-come-again", REBATCH + ":slot_of", "known->join != rebatch->joins", "true",
     ["unit/rebatch"]),
    ("rebatch-joined-threads-by-number-alone", REBATCH + ":slot_of", "is_same_thread(&known->thread, thread)",
     "known->thread.tid == thread->tid", ["unit/rebatch"]),
    ("rebatch-joined-threads-of-a-batch-before", REBATCH + ":rebatch_join", "	rebatch->joins++;\n", "",
     ["unit/rebatch"]),
    ("rebatch-joined-ends-early", REBATCH + ":rebatch_join", "	skip_to(&copy, copy.meta.end_seq);\n", "", UNIT),
    ("rebatch-joined-slots-of-the-frame-before", REBATCH + ":copy_joined",
     "	memset(copy->slot, 0, sizeof(copy->slot));\n", "", UNIT),
]
