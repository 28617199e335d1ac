"""Mutants of what goes from one run of the daemon to the next on the same rings, and of records of the past that are
another's: found by the simulation's histories, where runs are killed between any two steps."""
SIM = ["sim/sim"]
SAVED = "daemon/stream/saved_subscriptions.c"
PAST = "daemon/stream/past.c"
BEGINNING = "daemon/stream/beginning.c"

MUTANTS = [
    # What clients want.
    ("saved-flags-of-eight-digits", SAVED, "#define NUMBER_DIGITS	10", "#define NUMBER_DIGITS	8",
     ["unit/service_manager", *SIM]),
    ("saved-version-dropped-before-it-is-stored", SAVED + ":saved_subscriptions_save",
     "	err = store_version(saved, saved->version + 1, text, bytes);\n",
     "	snprintf(name, sizeof(name), NAME \"%\" PRIu64, saved->version);\n"
     "	service_manager_drop(saved->manager, name, -1);\n"
     "	err = store_version(saved, saved->version + 1, text, bytes);\n", ["unit/service_manager", *SIM]),
    ("saved-while-it-stops", "daemon/stream/fanout.c:begin_stop", "	fanout->subscriptions.saving = false;\n", "", SIM,
     "what ends while it stops has no client, so nothing is owed for it: the next run records a little less"),
    ("restored-and-not-adopted", "daemon/stream/subscriptions.c:subscriptions_adopt",
     "subscription->origin == SUBSCRIPTION_RESTORED && adopt", "subscription->origin == SUBSCRIPTION_NEW && adopt", SIM),
    ("recorder-not-held", "daemon/stream/recorder.c:recorder_hold", "RECORDER_HELD", "RECORDER_ON", SIM),
    ("recorder-never-resumed", "daemon/stream/recorder.c:recorder_resume", "	configure(recorder);\n", "", SIM),
    ("gone-in-the-run-before-forgotten", "daemon/stream/subscriptions.c:subscriptions_adopt", "	begin_gone(all);\n",
     "	(void)begin_gone;\n", ["unit/fanout_steps"]),

    # Who threads are.
    ("threads-kept-without-those-of-before", "daemon/ring/thread_table.c:thread_table_keep", "slot.used != 1", "slot.used == 1",
     ["unit/service_manager", *SIM]),
    ("threads-that-exited-stay-in-the-journal", "daemon/ring/thread_table.c:thread_table_forget",
     "thread_ring_clear(table->journal, table->bucket[at] - 1);", "(void)0;", ["unit/service_manager", *SIM]),
    ("texts-not-kept", "daemon/ring/thread_table.c:thread_table_learn_text", "!= UINT32_MAX && table->journal",
     "== UINT32_MAX && table->journal", ["unit/service_manager", *SIM]),

    # A record that has not all that is wanted.
    ("partial-record-told-beyond-its-end", PAST + ":past_begin", "whole ? UINT64_MAX :", "true ? UINT64_MAX :", ["unit/past", *SIM]),
    ("watermark-beyond-a-partial-record", PAST + ":is_beyond", "			return true;\n", "			return false;\n",
     SIM),
    ("given-up-before-the-log-not-told", PAST + ":miss_before_log", "gap = stream->gaps = true", "gap = stream->gaps = false", SIM),
    ("given-up-before-the-log-not-counted", PAST + ":miss_before_log", "floor - past->ring[i].place;", "0;", SIM),
    ("gap-of-no-size-passed-over", PAST + ":end_of_record", " && frame_ref_attempts(frame)", "", SIM),
    ("home-without-its-name", PAST + ":log_reaches", "past->earlier || ", "", SIM),
    ("home-before-what-is-told-of-it", PAST + ":log_reaches", " || catch_up_get(catch_up, 0)))", "))", SIM),
    ("missing-of-another-record-not-told", BEGINNING + ":create_at_time",
     "stream_miss(stream, LOSS_REASON_NOT_RECORDED);", "(void)0;", SIM),
    ("rebatch-event-beyond-the-end", "daemon/stream/rebatch.c:is_wanted", " && item->seq < copy->meta.end_seq", "", ["unit/rebatch"]),
    ("rebatch-loss-beyond-the-end", "daemon/stream/rebatch.c:copy_loss",
     "	if (end_seq > copy->meta.end_seq)\n		end_seq = copy->meta.end_seq;\n", "", ["unit/rebatch"]),
    ("past-time-of-the-other-forgotten", PAST + ":take_gaps",
     "	if (stream->last_time_ns < from->last_time_ns)\n		stream->last_time_ns = from->last_time_ns;\n", "", ["unit/past"]),
    ("past-gap-of-the-other-untold", PAST + ":take_gaps", "		ring->gap |= other->gap;\n", "", ["unit/past"]),
    ("past-gap-of-the-other-has-no-number", PAST + ":take_gaps", "		ring->gap_events += other->gap_events;\n", "", ["unit/past"]),
    ("past-gap-of-the-other-uncounted", PAST + ":take_losses",
     "			stream->lost[i][j] += from->lost[i][j] - past->lost[i][j];\n", "", ["unit/past"]),
    ("past-what-both-have-comes-twice", PAST + ":read_frame", "	if (frame->end_seq > ring->place) {", "	if (true) {", ["unit/past"]),
    ("past-overlap-comes-twice", PAST + ":read_frame", "frame->first_seq < ring->place ?", "false ?", ["unit/past"]),
    ("past-frame-without-memory-is-lost", PAST + ":make_range", "	if (!made)\n		return false;\n", "	if (!made)\n		return true;\n",
     ["unit/past"]),
    ("past-without-memory-has-work", PAST + ":past_has_work", "past->starved || past->waiting", "past->waiting", ["unit/past"]),
    ("past-that-waits-has-work", PAST + ":past_has_work", "past->starved || past->waiting", "past->starved", ["unit/past"]),
    ("past-turn-without-a-bound", PAST + ":make_range", "	past->budget -= (int64_t)(", "	past->budget -= 0 * (int64_t)(", ["unit/past"]),
    ("past-turn-comes-once", PAST + ":on_turn", "	past->budget = PAST_TURN_BYTES;\n", "	past->budget += 1;\n", ["unit/past"]),
    ("past-drops-of-the-other-not-counted", PAST + ":take_losses", "	stream->frames_dropped += from->frames_dropped;\n", "",
     ["unit/past"]),
    ("past-what-the-other-misses-untold", PAST + ":take_gaps", "	stream->missed |= from->missed;\n", "", ["unit/past"]),
    ("past-turn-wakes-nobody", PAST + ":on_turn", "	subscriber_wake(past->stream->subscriber);\n", "", ["unit/past"]),
    ("past-place-does-not-go-on", PAST + ":make_range", "		past->ring[frame->ring].place = made->end_seq;", "		(void)0;", ["unit/past"]),
]
