"""Mutants of what becomes of what a back end refuses: split, set aside, tried again, counted."""
SENDER = "daemon/export/sender.c"
TESTS = ["unit/export_sender", "unit/export_body"]


def sender(name, function, old, new, why=None):
    return (f"export-{name}", f"{SENDER}:{function}", old, new, TESTS, why)


MUTANTS = [
    ("export-spooled-expires", "daemon/export/sender.c:keep_bound", "!sender->config.spooled && ", "", ["unit/export_sender"]),
    ("export-acknowledged-when-taken-apart", "daemon/export/feed.c:take_report", "given->serial <= counts->settled_frame)",
     "given->serial <= counts->decoded_frame)", ["unit/export_feed"]),
    ("export-acknowledges-what-no-disk-keeps", "daemon/export/feed.c:take_report", "outlet->stream && outlet->feed->config.spooled",
     "outlet->stream", ["unit/export_feed"]),
    ("export-gap-counts-its-attempts", "daemon/export/feed.c:count_gap", "gap->events ? gap->events : gap->end_seq - gap->first_seq;",
     "gap->end_seq - gap->first_seq;", ["unit/export_feed"]),
    ("export-gap-of-unknown-events-is-none", "daemon/export/feed.c:count_gap", "gap->events ? gap->events : gap->end_seq - gap->first_seq;",
     "gap->events;", ["unit/export_feed"]),
    ("export-gap-out-of-the-spool-not-counted", "daemon/export/feed.c:give", "	if (frame->type == FRAME_GAP)\n		count_gap(outlet, frame);\n", "",
     ["unit/export_feed"]),
    ("export-gap-of-the-stream-not-counted", "daemon/export/feed.c:on_gap", "	if (frame->type == FRAME_GAP)\n		count_gap(context, frame);\n", "",
     ["unit/export_feed"]),
    ("export-gap-of-no-size-not-counted", "daemon/export/feed.c:count_gap", "		outlet->gaps += !events;\n", "", ["unit/export_feed"]),
    ("export-promise-of-an-answer-taken-for-one", "daemon/export/http.c:finish", "if (answer.status < 200)", "if (answer.status < 100)",
     ["scenario/export_odd_answers"]),
    sender("filtered-of-the-last-frame", "enqueue", "sender->counts.filtered += counts->filtered",
           "sender->counts.filtered = counts->filtered"),
    sender("splits-one-event", "split", "request->events <= 1", "request->events < 1"),
    sender("halves-that-overlap", "split_events", "events - events / 2", "events / 2"),
    sender("points-of-the-first-half-alone", "split_points", "points / 2, points - points / 2", "points / 2, points / 2"),
    sender("halves-in-the-wrong-order", "put_halves", "int i = 1; i >= 0; i--", "int i = 0; i < 2; i++"),
    sender("second-half-is-lost", "put_halves", "		if (half[i]) {", "		if (half[i] && !i) {"),
    sender("metrics-split-without-end", "split", "sender->splits++ >= EXPORT_METRIC_SPLITS_MAX",
           "sender->splits >= EXPORT_METRIC_SPLITS_MAX"),
    sender("retry-sooner-than-asked", "export_retry_ns", "asked_ns > wait ? asked_ns : wait", "wait"),
    sender("retry-as-late-as-asked", "export_retry_ns", "	if (asked_ns > EXPORT_RETRY_AFTER_NS_MAX)\n", "	if (false)\n"),
    sender("retry-never-later", "export_retry_ns", "		wait *= 2;", "		wait *= 1;"),
    sender("failures-not-counted", "try_again", "++sender->failures", "1 + 0 * sender->failures"),
    sender("sent-again-uncounted", "try_again",
           "		counter_add(COUNTER_export_items_resent, request->events);", "		;"),
    sender("rejected-uncounted", "reject", "	sender->counts.rejected += rejected;\n", ""),
    sender("rejected-of-the-last", "reject", "sender->counts.rejected += rejected", "sender->counts.rejected = rejected"),
    sender("rejected-stays", "reject", "	drop_first(sender, of);", "	(void)drop_first;"),
    sender("accepted-with-what-was-refused", "settle_accepted", "request->events - rejected;", "request->events;"),
    sender("accepted-of-more-than-there-was", "settle_accepted", "	if (rejected > request->events)\n", "	if (false)\n"),
    sender("aside-forgotten", "judge_aside", "		TAILQ_INSERT_TAIL(&again, request, link);\n", ""),
    sender("aside-after-what-is-newer", "judge_aside", "	TAILQ_CONCAT(&again, &sender->requests, link);\n", ""),
    sender("aside-all-rejected", "judge_aside", "request->round == sender->round", "true"),
    sender("aside-none-rejected", "judge_aside", "request->round == sender->round", "false",
           "what was refused alone is asked about once more, and rejected then"),
    sender("aside-without-end", "set_aside", "++sender->asked < most", "sender->asked < most"),
    sender("part-says-of-the-whole", "refuse", "	if (!request->is_part)\n", "	if (true)\n"),
    sender("busy-splits-at-once", "send_later", "sender->busy >= EXPORT_BUSY_TRIES", "sender->busy"),
    sender("busy-is-any-failure", "send_later", "answer->status == 429 ? sender->busy + 1 : 0", "sender->busy + 1"),
]
