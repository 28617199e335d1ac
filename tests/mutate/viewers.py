"""Mutants of what viewers may do to the record, to others, and to the kernel."""
STORE = "daemon/spool/store.c"
DURABLE = "daemon/stream/durable.c"
MESSAGE = "proto/message.c"
INPUT = "daemon/serve/session.c"
VIEWER = "daemon/stream/subscriptions.c"
STREAM = "daemon/stream/stream.c"
ACKS, VIEWERS = ["unit/consumer_acks"], ["unit/viewer_bounds"]

MUTANTS = [
    ("acks-free-what-is-always-on", STORE,
     "	return segment->readable && !segment->for_consumers;", "	return !segment;", ACKS),
    ("always-on-goes-on-in-a-consumers-segment", STORE,
     "	       (store->current->for_consumers ? turn->always_on : turn->remove);",
     "	       !store->current->for_consumers && turn->remove;", ACKS),
    ("freed-at-the-last-listed-place", DURABLE,
     "			if (seq < at->seq)",
     "			if (seq != UINT64_MAX)", ACKS),
    ("acks-of-what-was-not-sent", DURABLE,
     "if (position->seq > sent_upto(durable, stream, cursor, position->cpu))",
     "if (position->seq > sent_upto(durable, stream, cursor, position->cpu) + 1)", ACKS),
    ("acks-of-a-cpu-twice", DURABLE, "		if (cursor_find(cursor, position->cpu) != position)",
     "		if (cursor_find(cursor, position->cpu) != position && !i)", ACKS),
    ("forgotten-though-the-audit-log-failed", "daemon/serve/control.c",
     "	if (change->disk_error) {\n		refuse_disk(change, \"audit-failed\", \"the audit log\");",
     "	if (change->disk_error && change->action != ACTION_FORGET) {\n"
     "		refuse_disk(change, \"audit-failed\", \"the audit log\");", ACKS),
    ("fields-come-twice", MESSAGE, "	if (*seen & bit)", "	if (*seen & bit & 1)",
     ["unit/message"]),
    ("elements-without-end", MESSAGE, "	if (n > check->elements)", "	if (n > check->elements + 1)",
     ["unit/message"]),
    ("elements-of-each-field-bounded-alone", MESSAGE, "	check->elements -= (uint32_t)n;\n", "",
     ["unit/message"]),
    ("requests-not-looked-over", INPUT,
     "	if (!check_request(session, message_of[type], body, bytes))",
     "	if (!check_request(session, message_of[type], body, 0))", ["unit/session"]),
    ("text-forges-lines", INPUT, "	if (check_text(session, message))",
     "	if (check_text(session, message) || true)", ["unit/session"]),
    ("viewers-have-stacks", VIEWER, "RT_FLAG_USTACK) && !viewers->stacks)",
     "RT_FLAG_USTACK) && !viewers)", VIEWERS),
    ("viewers-have-any-probe", VIEWER,
     "		    !is_allowed(all->config.viewers.probe, catalog->probe[i])) {",
     "		    !catalog->probe[i]) {", VIEWERS),
    ("viewers-make-one-subscription-more", VIEWER,
     "	if (made < all->config.viewers.subscriptions)",
     "	if (made <= all->config.viewers.subscriptions)", VIEWERS),
    ("viewers-have-any-rate", STREAM, "	return rate->over;", "	return false;", VIEWERS),
    ("viewers-have-anything-made", VIEWER + ":check_may_make", "	if (claim != CLAIM_VIEWERS)", "	if (true)", ["unit/subscriptions"]),
    ("viewers-have-made-what-begins-so", VIEWER + ":check_may_make",
     "strcspn(words->word[i], \":\") == bytes &&", "strlen(words->word[i]) >= bytes &&", ["unit/subscriptions"]),
    ("viewers-have-made-any-provider", VIEWER + ":check_may_make", "memcmp(words->word[i], spec, bytes) == 0 &&", "",
     ["unit/subscriptions"]),
    ("viewers-have-any-file-looked-into", VIEWER + ":check_may_make",
     'strncmp(spec + bytes, ":/", 2) != 0', "true", ["unit/subscriptions"]),
    ("viewers-path-may-climb", VIEWER + ":is_of_file", 'strstr(path, "/../") || ', "", ["unit/subscriptions"]),
    ("operators-have-nothing-made", VIEWER + ":check_may_make", "	if (claim != CLAIM_VIEWERS)", "	if (claim == CLAIM_VIEWERS)",
     ["unit/subscriptions"]),
    ("viewers-second-probe-unchecked", VIEWER + ":subscriptions_prepare", "		if (!err)\n			err = making_prepare",
     "		err = making_prepare", ["unit/subscriptions"]),
    ("subscription-does-not-wait-for-the-first", VIEWER + ":subscriptions_prepare", "waits |= err;", "waits = err;",
     ["unit/subscriptions"]),
]
