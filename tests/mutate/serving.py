"""Mutants of what clients may ask, how many may, and what is told of it: sessions, consumers' owners, changes, the
configuration's checks."""
SERVER = "daemon/serve/server.c"
CHECK = "daemon/config/config.c"
CONTROL = "daemon/serve/control.c"
CONSUMERS = "daemon/stream/consumers.c"
OWNERS = ["unit/consumers", "unit/fanout_owner"]
ACKS = ["unit/consumer_acks", "unit/fanout_owner"]
CHANGES = ["unit/control"]
SESSION = "daemon/serve/session.c"
SESSIONS = ["unit/session"]
CONFIG = ["unit/config"]
SERVERS = ["unit/server", "unit/server_tls"]

MUTANTS = [
    ("operators-have-no-place-kept", SERVER + ":kept_for_operators", "part < 1 ? 1 : part", "part < 1 ? 0 : part", SERVERS),
    ("operators-are-kept-most", SERVER + ":kept_for_operators", "part < OPERATORS_KEPT_MAX ? part : OPERATORS_KEPT_MAX",
     "part < OPERATORS_KEPT_MAX ? OPERATORS_KEPT_MAX : part", SERVERS),
    ("consumers-of-exporters-count", CONSUMERS + ":consumers_count", "!consumer_name_is_own(consumer->name)", "1", OWNERS),
    ("consumers-of-clients-do-not-count", CONSUMERS + ":consumers_count",
     "		clients += !consumer_name_is_own(consumer->name);\n", "", OWNERS),
    ("consumers-of-others-count-as-ones-own", CONSUMERS + ":consumers_count", "strcmp(consumer->owner, owner) == 0", "1", OWNERS),
    ("consumer-open-to-everybody", CONSUMERS + ":consumer_is_open_to", "identity->role >= ROLE_OPERATOR ||",
     "identity->role >= ROLE_VIEWER ||", OWNERS),
    ("consumer-closed-to-operators", CONSUMERS + ":consumer_is_open_to", "identity->role >= ROLE_OPERATOR ||", "", OWNERS),
    ("consumer-closed-to-its-owner", CONSUMERS + ":consumer_is_open_to",
     " || strcmp(consumer->owner, identity->text) == 0", "", OWNERS),
    ("consumers-differ-in-number-of-probes", CONSUMERS + ":consumers_compare", "consumer->globs != request->globs",
     "consumer->globs > request->globs", ["unit/consumers"]),
    ("consumers-may-change-their-filter", CONSUMERS + ":consumers_compare",
     "		return differs(consumer, \"filter\", error);", "		return 0;", ["unit/consumers"]),
    ("consumers-may-change-their-flags", CONSUMERS + ":consumers_compare",
     "		return differs(consumer, \"flags\", error);", "		return 0;", ["unit/consumers"]),
    ("consumers-one-too-many", CONSUMERS + ":consumers_add", "consumers->count >= CONSUMERS_MAX",
     "consumers->count > CONSUMERS_MAX", ["unit/consumers"]),
    ("consumers-of-any-name", CONSUMERS + ":consumers_add", "	if (!is_name(name)) {", "	if (false) {", ["unit/consumers"]),
    ("ack-of-an-earlier-run-counts", CONSUMERS + ":consumer_acknowledge", "upto->run.epoch < consumer->place->run.epoch", "false",
     ["unit/consumers", "unit/consumer_acks"]),
    ("ack-kept-though-not-saved", CONSUMERS + ":mark_saved", "consumer->saving && !err", "consumer->saving",
     ["unit/consumers"]),
    ("ack-saved-is-not-given", CONSUMERS + ":consumers_are_given", "return !consumers->dirty;",
     "return consumers;", ["unit/consumers"]),
    ("freed-while-one-has-no-place", "daemon/stream/durable.c:release", "			return;\n", "			continue;\n", ACKS),
    ("begin-of-the-run-not-declared", "daemon/stream:subscriptions_begin_ring",
     "		spool_begin_ring(subscription->spool.spool, ring, seq);", "		;", ACKS),
    ("gap-before-the-run-not-told", "daemon/stream:subscriptions_begin_ring", "	if (stored && stored < seq)",
     "	if (false)", ACKS),
    ("acks-beyond-counted-nowhere", "daemon/stream:refuse_ack", "	counter_add(COUNTER_acks_refused, 1);\n", "", ACKS),
    ("config-key-without-certificate", CHECK + ":check_files", "config->tls_key && !config->tls_cert", "false", CONFIG),
    ("config-certificate-without-key", CHECK + ":check_files", "config->tls_cert && !config->tls_key", "false", CONFIG),
    ("config-client-ca-without-certificate", CHECK + ":check_files", "config->tls_client_ca && !config->tls_cert", "false",
     CONFIG),
    ("change-is-in-force-though-not-kept", CONTROL + ":take_kept", "	if (change->disk_error) {", "	if (false) {",
     CHANGES),
    ("change-not-kept-stays-in-force", CONTROL + ":take_kept", "		force(change, STEP_FORCE_OLD);\n",
     "		(void)force;\n", CHANGES),
    ("change-kept-is-forgotten", CONTROL + ":take_kept", "	control->on = change->next;\n	change->next = old;\n",
     "	(void)old;\n", CHANGES),
    ("change-with-any-filter", CONTROL + ":check_filter", "filter_compile(text, control->config.catalog, &filter, error)",
     "0", CHANGES),
    ("spool-always-on-not-told", "daemon/spool:spool_set_always_on", "	spool->config.always_on = always_on;\n", "",
     ["unit/consumer_acks"]),
    ("spool-freed-beyond-what-is-known", "daemon/spool:ends_run", "	if (run_equal(&segment->run, &store->config.run))",
     "	if (true)", ["unit/spool_runs", "unit/spool", "sim/sim"]),

    # What a request is refused with, and whose requests have probes made.
    ("refused-frames-number-of-the-one-before", SESSION + ":refuse_frame", "session->requests + 1", "session->requests", SESSIONS),
    ("refused-requests-number-of-the-one-before", SESSION + ":check_request", "session->requests + 1", "session->requests", SESSIONS),
    ("refused-texts-number-of-the-one-before", SESSION + ":check_text", "session->requests + 1", "session->requests", SESSIONS),
    ("refused-text-counted-from-0", SESSION + ":check_text", "place.byte + 1)", "place.byte)", SESSIONS),
    ("requests-not-numbered", SESSION + ":take_request", "		session->requests++;\n", "", SESSIONS),
    ("bad-frames-not-counted", SESSION + ":refuse_frame", "	counter_add(COUNTER_frames_bad, 1);\n", "", SESSIONS),
    ("bad-requests-not-counted", SESSION + ":check_request", "	counter_add(COUNTER_frames_bad, 1);\n", "", SESSIONS),
    ("bad-texts-not-counted", SESSION + ":check_text", "	counter_add(COUNTER_frames_bad, 1);\n", "", SESSIONS),
    ("refusals-not-counted", SESSION + ":session_refuse", "	counter_add(COUNTER_requests_refused, 1);\n", "", SESSIONS),
    ("failed-sessions-not-counted", SESSION + ":session_refuse", "		counter_add(COUNTER_sessions_failed, 1);\n", "", SESSIONS),
    ("viewers-lists-have-probes-made", SESSION + ":prepare",
     "type == FRAME_LIST && session->identity.role >= ROLE_OPERATOR &&", "type == FRAME_LIST &&", SESSIONS),
    ("viewers-changes-have-probes-made", SESSION + ":prepare",
     "type == FRAME_CHANGE && session->identity.role >= ROLE_OPERATOR)", "type == FRAME_CHANGE)", SESSIONS),
    ("every-list-has-probes-made", SESSION + ":prepare", " && is_made_for_list(list->glob))", ")", SESSIONS),
    ("lists-of-functions-make-none", SESSION + ":is_made_for_list", "			return true;", "			return false;", SESSIONS),
    ("lists-of-files-make-none", SESSION + ":is_made_for_list", "return strchr(glob, '/') != NULL;", "return false;", SESSIONS),
    ("silent-one-is-told-the-other-reason", SESSION + ":session_check_silence", "bool waits = !session_idle(session);",
     "bool waits = session_idle(session);", SESSIONS),
    ("fed-one-is-silent", SESSION + ":session_check_silence", "		session->active_ns = now_ns;\n", "		;\n", SESSIONS),
    ("one-with-stat-alone-is-silent", SESSION + ":session_check_silence",
     "session->stream || event_pending(session->stat_timer, EV_TIMEOUT, NULL)", "session->stream", SESSIONS),
    ("timeout-of-the-other-state", SESSION + ":on_timeout", "session->state == SESSION_NEW ? \"the client sent no hello in time\"",
     "session->state != SESSION_NEW ? \"the client sent no hello in time\"", SESSIONS),
]
