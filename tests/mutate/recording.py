"""Mutants of what the kernel is asked to record, of what a batch passes on of a record, and of what a drain
counts and remembers."""
RECORDER = "daemon/stream/recorder.c"
BATCHER = "daemon/collect/batcher.c"
DRAIN = "daemon/collect/drain.c"
SEGMENT = "daemon/spool"

ASKING = ["unit/recorder"]
PASSING = ["unit/batcher_attachments"]
BATCHING = ["unit/batcher", "unit/drain"]
DRAINING = ["unit/drain"]

MUTANTS = [
    # The union.
    ("recorder-flags-of-the-last", RECORDER + ":add_subscriptions", "request->flags |= subscription",
     "request->flags = subscription", ASKING),
    ("recorder-context-is-the-kernels", RECORDER + ":add_subscriptions", "~(RT_FLAG_CONTEXT | SPEC_STACK_TABLE)",
     "~SPEC_STACK_TABLE", ASKING),
    ("recorder-no-strings-of-files", RECORDER + ":add_subscriptions",
     "			request->flags |= SOURCE_FILE_STRINGS;", "			;", ASKING),
    ("recorder-held-is-asked-for", RECORDER + ":add_subscriptions", "subscription->state == SUBSCRIPTION_HELD ||\n		    ",
     "", ASKING),
    ("recorder-removed-is-asked-for", RECORDER + ":add_subscriptions",
     " ||\n		    subscription->state == SUBSCRIPTION_REMOVING", "", ASKING),
    ("recorder-no-clause-is-filtered", RECORDER + ":add_clauses", "	return subscription->clauses;", "	return true;", ASKING),
    ("recorder-clause-without-room-is-filtered", RECORDER + ":add_clauses", "			return false;", "			return true;",
     ASKING),
    ("recorder-equal-clauses-twice", RECORDER + ":add_clauses",
     "		if (has_clause(request, &clause))\n			continue;\n", "		(void)has_clause;\n", ASKING),
    ("recorder-meters-are-filtered", RECORDER + ":make_union", "	probe_set_union(&unfiltered, &recorder->metered);\n", "",
     ASKING),
    ("recorder-meters-are-not-asked-for", RECORDER + ":make_union", "	probe_set_union(&probes, &recorder->metered);\n", "",
     ASKING),
    ("recorder-clauses-that-filter-nothing", RECORDER + ":make_union",
     "	if (probe_set_equal(&probes, &unfiltered))\n		request->clauses = 0;\n", "", ASKING),

    ("recorder-hidden-names-in-clauses", RECORDER + ":add_clauses", "		if (hides_comm) {", "		if (false) {", ASKING),
    ("recorder-names-that-nobody-hides", RECORDER + ":add_clauses", "		if (hides_comm) {", "		if (true) {", ASKING),
    ("recorder-hidden-names-stay-in-the-text", RECORDER + ":add_clauses",
     "			memset(clause.comm, 0, sizeof(clause.comm));\n", "", ASKING),
    ("recorder-hides-later", RECORDER + ":recorder_hide_comm", "	configure(recorder);\n", "", ASKING),

    # One request at a time, and its answers.
    ("recorder-newer-meter-is-refused-with-the-old", RECORDER + ":refuse_meter",
     "	if (probe_set_equal(&recorder->metered, &recorder->metered_asked))\n", "", ASKING),
    ("recorder-meter-at-fault-is-not-asked-alone", RECORDER + ":take_refusal", "		else\n			configure(recorder);\n", "", ASKING),
    ("recorder-answer-about-threads-stays-open", RECORDER + ":take_stuck", "		close(report->fd);", "		;", ASKING),
    ("recorder-two-questions-about-threads", RECORDER + ":recorder_ask_stuck", "	if (recorder->stuck_done)\n		return -EBUSY;\n", "",
     ASKING),
    ("recorder-forgotten-question-is-answered", RECORDER + ":recorder_forget_stuck", "	recorder->stuck_done = NULL;\n", "", ASKING),
    ("recorder-statistics-are-the-first", RECORDER + ":recorder_stats", "	loader_ask_stats(recorder->config.loader);\n", "", ASKING),
    ("recorder-statistics-are-lost", RECORDER + ":on_report", "			recorder->stats = report.stats;\n", "", ASKING),
    ("recorder-made-probes-untold", RECORDER + ":on_report",
     "			recorder->config.made(recorder->config.context, &report);\n", "", ASKING),
    ("recorder-two-on-their-way", RECORDER + ":configure",
     "recorder->state == RECORDER_HELD || recorder->generation != recorder->done",
     "recorder->state == RECORDER_HELD", ASKING),
    ("recorder-held-asks", RECORDER + ":configure",
     "recorder->state == RECORDER_HELD || recorder->generation != recorder->done",
     "recorder->generation != recorder->done", ASKING),
    ("recorder-left-asks", RECORDER + ":configure", "	if (recorder->state == RECORDER_LEFT)\n		return;\n", "", ASKING),
    ("recorder-asks-for-ever", RECORDER + ":configure", "	recorder->dirty = false;\n", "", ASKING),
    ("recorder-uncounted", RECORDER + ":configure", "	counter_add(COUNTER_configures, 1);\n", "", ASKING),
    ("recorder-newest-is-on-its-way", RECORDER + ":recorder_newest",
     "recorder->dirty ? recorder->generation + 1 : recorder->generation", "recorder->generation", ASKING),
    ("recorder-later-ones-are-accepted", RECORDER + ":is_suspect",
     " &&\n	       subscription->generation <= generation", "", ASKING),
    ("recorder-refused-meter-stays", RECORDER + ":refuse_meter",
     "	if (probe_set_equal(&recorder->metered, &recorder->metered_asked))\n		recorder->metered ="
     " recorder->metered_had;\n", "", ASKING),
    ("recorder-refused-takes-away", RECORDER + ":take_refusal", "	recorder->dirty |= meter || first;\n", "", ASKING),
    ("recorder-meter-had-nothing", RECORDER + ":take_acceptance", "	recorder->metered_had = recorder->metered_asked;\n",
     "", ASKING),
    ("recorder-all-that-were-held-at-once", RECORDER + ":release_held", "			return;\n", "", ASKING),
    ("recorder-in-force-untold", RECORDER + ":take_configured",
     "	recorder->config.in_force(recorder->config.context, report->generation);\n", "", ASKING),
    ("recorder-gone-while-stopping-untold", RECORDER + ":take_gone",
     "	if (recorder->state == RECORDER_STOPPING)\n		recorder->config.silent(recorder->config.context);\n", "",
     ASKING),
    ("recorder-gone-untold", RECORDER + ":take_gone", "	recorder->config.gone(recorder->config.context, &error);\n", "",
     ASKING),

    # What comes with an event.
    ("batch-exec-without-its-file", BATCHER + ":batcher_wants_text", "probe == RT_PROBE_SCHED_EXEC || ", "", PASSING),
    ("batch-map-without-its-file", BATCHER + ":batcher_wants_text", " || probe == RT_PROBE_PROCESS_MAP", "", PASSING),
    ("batch-strings-of-files-alone", BATCHER + ":batcher_wants_text",
     " || (of_file && spec->file_strings) ||", " ||", PASSING),
    ("batch-structures-with-strings-of-files", BATCHER + ":batcher_wants_text",
     " && !(field < 32 && info->structure_fields >> field & 1)", "", PASSING),
    ("batch-frames-not-filled", BATCHER + ":encode_attachment", "while (frames && frame[frames - 1] == 0)",
     "while (false)", PASSING),
    ("batch-attachments-dropped-uncounted", BATCHER + ":encode_attachments",
     "			counter_add(COUNTER_attachments_dropped, 1);\n", "", PASSING),
    ("batch-last-attachment-dropped", BATCHER + ":encode_attachments", "bytes > left ||", "bytes >= left ||", PASSING),
    ("batch-attachment-of-another-argument", BATCHER + ":field_of_arg", "arg + 2 : arg", "arg + 1 : arg", PASSING),
    ("batch-maps-are-filtered", BATCHER + ":passes", "	if (item->probe == RT_PROBE_PROCESS_MAP)\n		return true;\n", "",
     PASSING),
    ("batch-stranger-is-as-nobody-was", BATCHER + ":passes", "thread != THREAD_NONE && thread == batcher->judged_thread",
     "thread == batcher->judged_thread", ["unit/batcher"]),
    ("batch-encoded-uncounted", BATCHER + ":batcher_flush", "	counter_add(COUNTER_events_encoded, events);\n", "",
     DRAINING),
    ("batch-times-begin-anew", BATCHER + ":batcher_event", "	batcher->last_time_ns = item->time_ns;\n", "", DRAINING),
    ("batch-given-up-uncounted", BATCHER + ":owe", "	counter_add(COUNTER_batches_out_of_memory, 1);\n", "", BATCHING),
    ("batch-stranger-uncounted", BATCHER + ":encode_unknown", "	counter_add(COUNTER_threads_unknown, 1);\n", "", BATCHING),
    ("batch-cpu-is-the-ring", BATCHER + ":send", "frame->cpu = batcher->config.cpu;", "frame->cpu = batcher->config.ring;",
     BATCHING),

    # What a drain remembers and counts.
    ("drain-ended-thread-runs-on", DRAIN + ":take_thread", "	drain->cached_thread = THREAD_NONE;\n", "", DRAINING),
    ("drain-text-beyond-its-bound", DRAIN + ":is_text", "text->bytes <= RT_TEXT_BYTES_MAX && ", "", DRAINING),
    ("drain-text-beyond-its-record", DRAIN + ":is_text", "sizeof(*text) + text->bytes <= item->words * 8",
     "text->bytes <= item->words * 8", DRAINING),
    ("drain-text-has-no-number", DRAIN + ":take_text", "	skip(drain);\n", "", DRAINING),
    ("drain-bad-uncounted", DRAIN + ":take_bad", "	counter_add(COUNTER_records_bad, 1);\n", "", DRAINING),
    ("drain-read-uncounted", DRAIN + ":drain_read", "	counter_add(COUNTER_records_read, read);\n", "", DRAINING),
    ("drain-lost-for-another-reason", DRAIN + ":drain_read", "ring_loss_reason(item.reason)", "ring_loss_reason(0)", DRAINING),
    ("drain-newcomers-times-begin-at-0", DRAIN + ":drain_add", "drain->seq, drain->last_time_ns", "drain->seq, 0", DRAINING),
    ("drain-watermark-of-no-record", DRAIN + ":take_record", "	drain->last_time_ns = item->time_ns;\n", "", DRAINING),

    # What was before the first spool.
    ("segment-always-begins-the-record", SEGMENT + "/segment.c:spool_segment_begin", " && !store->config.goes_on;", ";",
     ["unit/spool_runs"]),
    ("segment-begins-the-record-after-a-kill", SEGMENT + "/segment.c:spool_segment_begin",
     "!store->begun_run && store->orderly &&", "!store->begun_run &&", ["unit/spool_runs"]),
    ("segment-never-begins-the-record", SEGMENT + "/segment.c:read_head",
     "		segment->begins_record = head->begins_record;\n", "", ["unit/spool_runs"]),
    ("segment-record-begins-unsaid", SEGMENT + "/segment.c:pack_head",
     "	head.begins_record = store->current->begins_record;\n", "", ["unit/spool_runs"]),
]
