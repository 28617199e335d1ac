"""Mutants of the courier: what Kafka does not have is not acknowledged, and readers get each record once, or a gap."""
COURIER = "courier/courier.c"
RELAYED = "courier/relayed.c"
WINDOW = "courier/window.c"
NUMBERS = "courier/numbers.c"
RECORDING = "courier/recording.c"
PARCEL = "courier/parcel.c"
CARRYING = ["unit/courier"]
WAITING = ["unit/window", "unit/producer"]
COUNTING = ["unit/numbers"]
READING = ["unit/kafka_recording"]

MUTANTS = [
    # Which run frames belong to.
    ("courier-new-run-is-not-announced", COURIER, "	if (!run_equal(&run, &courier->label.run))\n		courier->announced = false;\n",
     "", CARRYING),
    ("courier-new-catalog-is-not-announced", COURIER, "	if (crc != courier->label.catalog)\n		courier->announced = false;\n",
     "", CARRYING),
    # What is acknowledged.
    ("courier-place-is-one-too-early", COURIER, ".index = courier->window.index };", ".index = courier->window.index - 1 };",
     CARRYING),
    ("courier-goes-on-behind-a-frame-without-memory", COURIER + ":take_frame", "	if (courier->out_of_memory)\n", "	if (false)\n",
     CARRYING),
    ("courier-marks-a-place-behind-a-frame-without-memory", COURIER + ":mark_place", "courier->out_of_memory || ", "",
     CARRYING),
    ("relayed-a-frame-without-memory-is-told", RELAYED + ":take_item", "	if (relayed->out_of_memory)\n", "	if (false)\n",
     ["unit/relayed"]),
    ("relayed-a-refused-run-is-not-told-as-refused", RELAYED, "	told->refused = lane->window.refused;\n", "", ["unit/relayed"]),
    ("relayed-what-was-refused-is-told-as-delivered-when-the-host-begins-again", RELAYED + ":end_refusal",
     "	if (note_delivered(lane, &told))\n		tell(relayed, &told, 1);\n", "	(void)told;\n	(void)relayed;\n",
     ["unit/relayed"]),
    ("relayed-a-run-is-announced-with-each-stream", RELAYED + ":begin_run", "	if (!lane->announced)\n", "	if (true)\n",
     ["unit/relayed"]),
    ("window-everything-is-confirmed", WINDOW + ":window_confirmed_upto", "first ? first->index : window->index", "window->index",
     WAITING),
    ("window-gap-is-behind-all", WINDOW, "		instead->index = parcel->index;", "		instead->index = window->index;", WAITING),
    ("courier-frames-are-before-their-run", WINDOW, "before->state != PARCEL_CONFIRMED) ?", "before->state == PARCEL_WAITING) ?",
     WAITING),
    ("producer-old-brokers-are-told-each-time", "courier/producer.c:take_fatal", "	else if (!producer->old_told)\n", "	else\n",
     ["unit/producer"]),
    ("producer-old-brokers-are-any-failure", "courier/producer.c:take_fatal", "	if (!old)\n", "	if (true)\n", ["unit/producer"]),
    # What a reader has.
    ("numbers-last-of-a-duplicate-is-an-overlap", NUMBERS, "span->end_seq <= at->next)", "span->end_seq < at->next)", COUNTING),
    ("numbers-first-of-an-overlap-is-a-hole", NUMBERS, "span->first_seq > at->next)", "span->first_seq >= at->next)", COUNTING),
    ("numbers-watermark-hides-a-hole-of-one", NUMBERS, "seq - at->next > skipped)", "seq - at->next > skipped + 1)", COUNTING),
    ("numbers-what-was-skipped-is-missing", NUMBERS, "at->next, seq - skipped };", "at->next, seq };", COUNTING),
    ("numbers-hole-is-told-again", NUMBERS + ":move", "	at->next = seq;\n", "", COUNTING),
    ("recording-missing-is-not-counted", RECORDING + ":put_hole",
     "	recording->ledger.missing += hole->end_seq - hole->first_seq;\n", "", READING),
    ("recording-damaged-counts-as-had", RECORDING + ":recording_take",
     "	if (label->span.known)\n		run->cpu[label->span.cpu] = before;\n", "", READING),
    # Which partitions a reader waits for.
    ("topic-a-host-s-reader-reads-all-partitions", "courier/topic.c", "if (only >= 0 && i != only)", "if (false)", ["unit/topic"]),
    ("topic-a-broker-that-does-not-answer-begins-at-0", "courier/topic.c", "		return RD_KAFKA_OFFSET_END;", "		return 0;",
     ["unit/topic"]),
    ("topic-an-ended-partition-hides-one-that-stands-still", "courier/topic.c",
     "(unsigned)partition < topic->partitions && topic->state[partition] == PARTITION_OPEN)", "true)", ["unit/topic"]),
    ("topic-an-ended-partition-is-read-on", "courier/topic.c", "	if (topic->wanted.to_end)\n", "	if (false)\n", ["unit/topic"]),
    ("topic-a-reader-s-own-sleep-is-a-wait", "courier/topic.c", "waited_ns < most_ns ? waited_ns : most_ns", "waited_ns",
     ["unit/topic"]),
    # What a reader knows of runs.
    ("runs-a-catalog-takes-its-room-with-each-run", "courier/runs.c", "	if (found && *found == made)\n", "	if (found)\n", ["unit/runs"]),
    ("runs-a-catalog-that-was-replaced-takes-room", "courier/runs.c", "	if (!catalog || --catalog->rows)\n", "	if (true)\n",
     ["unit/runs"]),
    ("runs-what-is-cut-short-is-a-beginning", "courier/runs.c", "bytes + FRAME_HEADER_BYTES + catalog.body_bytes != n)", "false)",
     ["unit/runs"]),
    # What retention has deleted.
    ("topic-the-oldest-record-is-the-first-there-was", "courier/topic.c", "offset <= low", "offset < low", ["unit/topic"]),
    ("topic-a-partition-of-which-nothing-is-left-is-whole", "courier/topic.c", "offset < 0 ? low == high :", "offset < 0 ? false :",
     ["unit/topic"]),
    ("reading-what-retention-deleted-is-no-hole", "courier/reading.c", "if (topic_is_cut(reading->topic, partition))", "if (false)",
     ["unit/reading"]),
    ("reading-a-host-of-which-nothing-is-left-is-whole", "courier/reading.c", "if (topic_is_cut(reading->topic, i))", "if (false)",
     ["unit/reading"]),
    ("intake-a-missing-beginning-is-told-twice", "client/lib/intake.c", "gap->end_seq == gap->first_seq)\n		intake->check_begin",
     "gap->end_seq != gap->first_seq)\n		intake->check_begin", ["unit/reading"]),
    # Whose frames they are.
    ("recording-a-host-s-frames-stand-in-another-s-lane", RECORDING + ":put",
     "recording->output->lane != recording->lane ? put_consign(recording, error) : 0", "recording->host ? put_consign(recording, error) : 0",
     READING),
    ("recording-what-is-missing-behind-is-not-told", RECORDING + ":recording_break",
     "	return put_hole(recording, &here, RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE, error);", "	return 0;", READING),
    ("reading-what-a-still-partition-has-is-no-loss", "courier/reading.c:tell_partition", "		return;\n	reading->lossy = true;\n", "		return;\n",
     ["unit/reading"]),
    ("reading-a-host-of-a-still-partition-ends-as-if-whole", "courier/reading.c",
     "err = recording_break(reading->lane[i]->recording, error);", "err = 0;", ["unit/reading"]),
    ("reading-a-still-partition-of-others-is-a-loss", "courier/reading.c:tell_partition", "	if (!behind.hosts)\n		return;\n", "", ["unit/reading"]),
    ("reading-a-full-disk-is-no-failure", "courier/reading.c", "if (!fflush(reading->to) && !ferror(reading->to))",
     "if (!fflush(reading->to) || true)", ["unit/reading"]),
    ("reading-globs-are-not-asked", "courier/reading.c", " && parcel_host_matches(host, wanted->host, wanted->hosts);", ";",
     ["unit/reading"]),
    # What tracectl makes of hosts in one stream.
    ("lanes-a-lane-changes-its-host", "client/lib/lanes.c", "strcmp(consign->host, lanes->lane[consign->lane]->host) != 0 ?", "false ?",
     ["unit/lanes"]),
    ("lanes-a-name-breaks-json", "client/lib/lanes.c", " && !strpbrk(host, \"\\\"\\\\\");", ";", ["unit/lanes"]),
    ("lanes-a-damaged-consign-ends-no-host", "client/lib/lanes.c", "	end_all(lanes);\n	return LANES_FAILED;", "	return LANES_FAILED;",
     ["unit/lanes"]),
    ("pump-the-worst-host-comes-last", "client/cli/pump.c", "return pair[i][0] > pair[i][1] ? -1 : 1;",
     "return pair[i][0] > pair[i][1] ? 1 : -1;", ["unit/pump"]),
    ("pump-a-host-without-the-probe-is-a-failure", "client/cli/pump.c", "		if (lacks_selection(run, leg))\n			continue;\n", "",
     ["unit/pump"]),
    ("pump-enough-for-one-lane-is-not-enough", "client/cli/pump.c", "leg->why == STOPPED_SELF || leg->why == STOPPED_OUTPUT ?",
     "leg->why == STOPPED_OUTPUT ?", ["unit/pump"]),
    ("answer-intervals-of-the-past-begin-anywhere", "client/cli/answer.c", "time_ns - time_ns % answer->question.interval_ns;",
     "time_ns;", ["unit/answer"]),
    ("parcel-cpu-beyond-all", PARCEL, "number < CURSOR_POSITIONS_MAX &&", "number <= CURSOR_POSITIONS_MAX &&", ["unit/parcel"]),
    ("parcel-span-backwards", PARCEL, "label->span.first_seq <= label->span.end_seq;", "true;", ["unit/parcel"]),
    ("parcel-gap-without-a-span", PARCEL, "label->type != FRAME_BATCH && label->type != FRAME_GAP;", "label->type != FRAME_BATCH;",
     ["unit/parcel"]),
    ("kafka-password-in-clear", "courier/kafka.c", "!strcmp(settings->sasl, \"PLAIN\") && !settings->tls) {", "false) {",
     ["unit/producer"]),
]
