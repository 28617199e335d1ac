"""Mutants of what is counted in the place of events: rows, slices, and what a client makes of them."""
COUNTING = "daemon/collect/counting.c"
BATCHER = "daemon/collect/batcher.c"
UNIT = ["unit/counting"]
SCENARIO = ["scenario/counted_in_daemon"]

MUTANTS = [
    ("counting-two-slices-in-one-row", BATCHER + ":count", "counting_slice(batcher->counting) != slice_ns", "false", UNIT),
    ("counting-tells-rows-alone", BATCHER + ":batcher_flush", "counting_events(batcher->counting)",
     "counting_rows(batcher->counting)", UNIT),
    ("counting-keeps-what-is-over", BATCHER + ":batcher_tick", "until_ns) > counting_slice(counting))",
     "until_ns) > UINT64_MAX / 2)", SCENARIO),
    ("counting-errors-of-one-kind", COUNTING, "		put_word(key, errno_of(plan, item));", "		;", UNIT),
    ("counting-comms-are-one", COUNTING, "		put(key, thread->comm, sizeof(thread->comm));", "		;", UNIT),
    ("counting-texts-are-one", COUNTING + ":put_texts",
     "			put(key, attachment, sizeof(*attachment) + attachment->bytes);", "			;", UNIT),
    ("counting-negative-values", COUNTING, "		return (int64_t)*value >= 0;\n	case RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT:",
     "		return true;\n	case RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT:", UNIT),
    ("counting-a-folder-as-a-descriptor", COUNTING, "		return (int64_t)*value >= 0;		/* AT_FDCWD is no descriptor */",
     "		return true;", UNIT),
    ("answer-adds-a-folder-as-a-descriptor", "client/cli/event_part.c:event_part_value", " || field->type == RINGTAIL_FD", "",
     ["unit/answer"]),
    ("counting-the-greatest-is-the-last", COUNTING, "	if (!row->values || value > row->greatest)", "	if (true)", UNIT),
    ("counting-buckets-of-before", COUNTING,
     "		memset(counting->block[counting->blocks], 0, sizeof(counting->block[0]));\n", "", UNIT),
    ("counting-slices-of-any-length", COUNTING, "	return time_ns - since_ns % QUESTION_SLICE_NS;",
     "	return time_ns - since_ns;", UNIT),
    ("counts-more-than-there-are", "proto/batch_counts.c", " || stands_for - 1 > skipped)", ")", ["unit/batch_counts"]),
    ("counts-of-one-bucket-twice", "proto/batch_counts.c", " || (i && !step)", "", ["unit/batch_counts"]),
    ("counts-in-no-bucket", "proto/batch_counts.c", "	return left == 0;", "	return true;", ["unit/batch_counts"]),
    ("counts-beyond-all-buckets", "proto/batch_counts.c", "		if (number >= COUNT_BUCKET_NUMBERS)",
     "		if (false)", ["unit/batch_counts"]),
    ("watermark-before-the-slice-ends", "daemon/stream/fanout.c:told_ns", "	return slice_ns ? slice_ns : fanout->watermark_ns;",
     "	return slice_ns == 1 ? slice_ns : fanout->watermark_ns;", ["unit/fanout_watermark"]),
    ("question-shared-with-another", "daemon/stream/subscription.c",
     "	       question_equal(a->spec.question, b->spec.question) &&\n", "", SCENARIO),
    ("answer-counts-events-once", "client/cli/answer.c:add_counts", "	row->events += counts->events;", "	row->events++;",
     SCENARIO),
    ("answer-leaves-before-it-is-told", "client/cli/pump.c:stop_softly", "	if (!leg->pump->settles)", "	if (true)",
     SCENARIO),
]
