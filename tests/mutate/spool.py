"""Mutants of a spool on its way to the disk: what is durable and when, what is lost and told of it."""
SPOOL = "daemon/spool/spool.c"
STORE = "daemon/spool/store.c"

WRITING = ["unit/spool_losses", "unit/spool", "unit/spool_watermark", "unit/spool_faults"]
READING = ["unit/spool_runs", "unit/spool_losses", "unit/spool", "unit/spool_damage"]

MUTANTS = [
    ("spool-found-is-durable-unsynced", "daemon/spool/recover.c:spool_store_recover",
     "(segment->trusted || store->config.durability == SPOOL_WRITTEN))", "true)", ["unit/spool_losses"]),
    # What is durable, and when.
    ("spool-durable-before-the-sync", STORE,
     "	if (store->config.durability == SPOOL_WRITTEN || !store->current)\n		mark_durable(store);",
     "	mark_durable(store);", WRITING),
    ("spool-durable-though-the-sync-failed", STORE,
     "	if (!err)\n		mark_durable(store);\n	return err;\n}\n\nstatic int seal",
     "	mark_durable(store);\n	return err;\n}\n\nstatic int seal", WRITING),
    ("spool-sync-left-out", STORE,
     "	int err = store->current ? store->disk->ops->sync(store->disk, store->file) : 0;",
     "	int err = 0;", WRITING),
    ("spool-sealed-without-a-sync", STORE,
     "	if (!err)\n		err = sync_current(store);\n	if (!err)\n		err = spool_segment_rename(store);",
     "	if (!err)\n		err = spool_segment_rename(store);", WRITING),
    ("spool-written-anew-from-the-middle", STORE,
     "	store->failing = true;\n	store->held_written = 0;\n", "	store->failing = true;\n", WRITING),
    ("spool-failed-file-counts-as-told", STORE,
     "	store->held_written = 0;\n	cursor_assign(store->told, store->told_durable);\n"
     "	cursor_assign(store->quiet, store->quiet_durable);\n	if (!segment)",
     "	store->held_written = 0;\n	if (!segment)", WRITING),
    ("spool-one-try-only", STORE, "#define TRIES		2", "#define TRIES		1", WRITING),
    ("spool-quiet-is-told-without-a-watermark", STORE,
     "note_told(frame->bytes ? store->told : store->quiet,", "note_told(store->told,", WRITING),
    ("spool-room-for-less-than-was-refused", STORE,
     "	size_t wanted = store->refused_bytes ? store->refused_bytes : 1;", "	size_t wanted = 1;",
     ["unit/spool", "unit/spool_window", "unit/spool_faults"]),
    ("spool-begin-of-the-run-forgotten-with-a-failed-write", STORE,
     "		note_told(store->told_durable, mark->cpu, mark->seq);\n", "", ["unit/spool_runs"]),
    ("spool-begin-of-the-run-not-noted", STORE, "		note_begun(store, turn->begun);\n",
     "		(void)note_begun;\n", READING),

    # What was lost, and that it is told.
    ("spool-lost-range-from-its-end", SPOOL,
     "	if (lost->first_seq > first_seq)\n		lost->first_seq = first_seq;\n", "", WRITING),
    ("spool-lost-range-stays-short", SPOOL,
     "	if (lost->end_seq < end_seq)\n		lost->end_seq = end_seq;\n", "", WRITING),
    ("spool-lost-events-not-summed", SPOOL, "	lost->events += events;\n",
     "	lost->events = events;\n", WRITING),
    ("spool-own-counted-as-lost-again", SPOOL,
     "		if (!entry.own)\n			count_lost(spool, attempts_of(frame), reason);",
     "		count_lost(spool, attempts_of(frame), reason);", WRITING),
    ("spool-losses-within-a-lost-frame-forgotten", SPOOL,
     "			   frame->events + frame_ref_losses(frame),\n			   entry.own",
     "			   frame->events,\n			   entry.own", WRITING),
    ("spool-own-reason-replaced", SPOOL, "			   entry.own && frame->losses ?",
     "			   false && frame->losses ?", WRITING),
    ("spool-lost-watermark-not-owed", SPOOL, "		spool->owes_watermark = true;\n		if", "		if", WRITING),
    ("spool-owed-watermark-of-an-older-time", SPOOL,
     "		if (spool->owed_time_ns < frame->time_ns)\n			spool->owed_time_ns",
     "		if (!spool->owed_time_ns)\n			spool->owed_time_ns", WRITING),
    ("spool-owed-watermark-skips-from-nothing", SPOOL,
     "		position[n].skipped = end - spool->ring[i].said;", "		position[n].skipped = end;", WRITING),
    ("spool-owed-watermark-goes-beyond-the-loss", SPOOL,
     "	if (ring->lost.any && ring->lost.events && ring->lost.first_seq < end)\n"
     "		end = ring->lost.first_seq;\n", "", WRITING),
    ("spool-gap-before-the-owed-watermark", SPOOL,
     "	if (spool->owes_watermark && !push_owed_watermark(spool))\n		return false;\n"
     "	if (spool->lost)\n		spool->lost = !push_lost(spool, true);\n	return !spool->lost;",
     "	if (spool->lost)\n		spool->lost = !push_lost(spool, true);\n"
     "	if (spool->owes_watermark && !push_owed_watermark(spool))\n		return false;\n"
     "	return !spool->lost;", WRITING),
    ("spool-skips-behind-the-owed-watermark", SPOOL,
     "	if (spool->lost && !push_lost(spool, false))\n		return false;\n"
     "	if (spool->owes_watermark && !push_owed_watermark(spool))\n		return false;\n",
     "	if (spool->owes_watermark && !push_owed_watermark(spool))\n		return false;\n"
     "	if (spool->lost && !push_lost(spool, false))\n		return false;\n", WRITING),
    ("spool-quiet-lost-without-a-word", SPOOL,
     "		lose_quiet(spool, &spool->ring[i], reason);\n	while", "		(void)lose_quiet;\n	while", WRITING),
    ("spool-quiet-lost-uncounted", SPOOL,
     "	count_lost(spool, ring->quiet_attempts, reason);\n", "", WRITING),
    ("spool-rest-lost-stays-in-the-queue", SPOOL, "		uncount(spool, at(spool, i));\n", "", WRITING),
    ("spool-own-frame-counts-as-stored", SPOOL,
     "	uint64_t attempts = entry->own ? 0 : attempts_of(frame);",
     "	uint64_t attempts = attempts_of(frame);", WRITING),
    ("spool-quiet-stored-before-its-watermark", SPOOL,
     "		raise(&spool->ring[frame->ring].quiet, frame->end_seq);",
     "		raise(&spool->ring[frame->ring].end, frame->end_seq);", WRITING),
    ("spool-quiet-attempts-counted-twice", SPOOL,
     "			spool->stored += ring->quiet_attempts;\n			ring->quiet_attempts = 0;",
     "			spool->stored += ring->quiet_attempts;", WRITING),
    ("spool-durable-end-goes-back", SPOOL, "	if (*end >= to)\n		return false;\n",
     "	if (*end == to)\n		return false;\n", WRITING),
    ("spool-hole-before-the-run-unnamed", SPOOL,
     "	if (!ring->known || ring->came || ring->began <= ring->next)\n		return;\n",
     "	if (ring || !spool)\n		return;\n", READING),
    ("spool-hole-not-produced", SPOOL, "	spool->produced += missing;\n", "", READING),
    ("spool-losses-counted-anew-over-a-restart", SPOOL,
     "	if (ring->known && frame->end_seq <= ring->next)\n		return false;\n", "", READING),
    ("spool-what-waited-produced-twice", SPOOL,
     "		spool->produced -= attempts_of(entry.frame);\n", "", READING),
    ("spool-owed-watermark-forgotten-when-opened", SPOOL, "	spool->owes_watermark |= owes;\n", "	(void)owes;\n",
     WRITING),
    ("spool-queue-without-a-bound", SPOOL,
     "	if (spool->queue_bytes + cost_of(frame) <= SPOOL_HELD_BYTES_MAX) {", "	if (true) {", WRITING),

    # Turns.

    # What a reader is given.

    # Which segments go.

    # After a kill.
    ("spool-tells-of-what-goes-at-its-end", "daemon/spool/spool.c:end", "	spool->config.gone = NULL;\n", "", ["unit/spool_goes"]),
]
