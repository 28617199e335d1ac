"""Mutants of the exporters: what goes out, how it is answered, what is held, counted and told; and of the status page."""


def http(name, function, old, new):
    return (f"export-http-{name}", f"daemon/export/http.c:{function}", old, new, ["unit/export_http"])


def thread(name, function, old, new):
    return (f"export-thread-{name}", f"daemon/export/thread.c:{function}", old, new, ["unit/export_thread"])


def feed(name, function, old, new):
    return (f"export-feed-{name}", f"daemon/export/feed.c:{function}", old, new, ["unit/export_flow"])


def body(name, place, old, new):
    return (f"export-body-{name}", f"daemon/export/{place}", old, new, ["unit/export_body"])


def said(name, place, old, new):
    return (f"export-said-{name}", f"daemon/export/{place}", old, new, ["unit/export_said"])


def metrics(name, place, old, new):
    return (f"export-metrics-{name}", f"daemon/export/{place}", old, new, ["unit/export_metrics"])


def target(name, function, old, new):
    return (f"export-target-{name}", f"daemon/export/target.c:{function}", old, new, ["unit/export_targets"])


def live(name, function, old, new):
    return (f"live-{name}", f"daemon/http/live.c:{function}", old, new, ["unit/http_live"])


def sender(name, function, old, new):
    return (f"export-sender-{name}", f"daemon/export/sender.c:{function}", old, new, ["unit/export_sender"])


def choose(name, function, old, new):
    return (f"export-choose-{name}", f"daemon/export:{function}", old, new, ["unit/export_choose"])


def run(name, function, old, new):
    return (f"export-run-{name}", f"daemon/export/run.c:{function}", old, new, ["unit/export_run"])


def intake(name, function, old, new, test="unit/export_intake"):
    return (f"export-intake-{name}", f"daemon/export/intake.c:{function}", old, new, [test])


MUTANTS = [
    http("connection-error-is-no-error", "finish", "	if (result != CURLE_OK)\n", "	if (false)\n"),
    http("certificate-is-about-nothing", "is_about_tls", "	case CURLE_PEER_FAILED_VERIFICATION:\n", ""),
    http("sent-though-cut-off", "finish", "answer.sent = (size_t)sent == call->post.bytes;", "answer.sent = true;"),
    http("retry-after-in-ms", "finish", "(uint64_t)retry_after * NS_PER_S :", "(uint64_t)retry_after * 1000000 :"),
    http("retry-after-wraps", "finish", "(uint64_t)retry_after < UINT64_MAX / NS_PER_S ?", "true ?"),
    http("answer-without-end", "on_answer", "	if (room > bytes)\n		room = bytes;\n", "	room = bytes;\n"),
    http("answer-never-ends", "on_answer", "	return room;", "	return bytes;"),
    http("asks-before-the-body", "set_up", 'add_header(call, "Expect:")', "true"),
    http("headers-but-the-last", "set_up", "i < post->headers_count", "i + 1 < post->headers_count"),
    http("any-protocol", "set_up",
         '	     curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&\n', ""),
    http("authority-not-read", "set_up", "(!call->http->ca_file ||", "(true ||"),
    thread("reports-what-is-not-news", "on_report", "		if (!outlet->changed)\n			continue;\n", ""),
    thread("reports-for-ever", "on_report", "		outlet->changed = false;\n", ""),
    thread("reports-another", "on_report", "report->target = i;", "report->target = 0;"),
    thread("no-memory-for-a-report-and-no-other-try", "on_report",
           "			event_add(thread->on_report, &later);\n", ""),
    thread("flushes-the-first", "flush", "i < thread->config.targets->count", "i < 1"),
    thread("snapshot-kept", "follow", "		metric_snapshot_destroy(order->snapshot);\n", ""),
    thread("as-urgent-as-others", "run", "	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);\n", ""),
    thread("takes-signals", "export_thread_start", "	sigfillset(&all);\n", "	sigemptyset(&all);\n"),
    thread("serial-left-out", "export_thread_give", ".serial = serial,", ".serial = 1,"),
    feed("takes-beyond-its-room", "has_room", "outlet->counts.queued_bytes < feed->queue_bytes_max",
         "outlet->counts.queued_bytes <= feed->queue_bytes_max"),
    feed("more-unsettled-than-are-counted", "has_room", "EXPORT_FRAMES_UNSETTLED_MAX - EXPORT_FRAMES_MAX)",
         "EXPORT_FRAMES_UNSETTLED_MAX)"),
    feed("sent-though-not-given", "give", "		free(given);\n		return NULL;\n", "		return given;\n"),
    feed("gaps-not-asked-again", "pull", "them */\n			set_timer(outlet, PULL_NAP_MS * 1000000ull);\n", "them */\n"),
    feed("metrics-once", "on_timer", "	set_timer(outlet, feed->interval_ns);\n", ""),
    feed("metrics-not-given-are-counted", "on_timer", "		outlet->events -= snapshot->points;\n", ""),
    feed("metrics-snapshot-kept", "on_timer", "		metric_snapshot_destroy(snapshot);\n", ""),
    feed("consumer-without-a-spool", "tap", "request.consumer = feed->config.spooled ?", "request.consumer = true ?"),
    feed("context-not-asked-for", "tap", "			.flags = RT_FLAG_CONTEXT,\n", ""),
    feed("flushed-though-frames-wait", "export_feed_flush",
         "		if (outlet->stream && has_room(outlet) && stream_has_work(outlet->stream))\n			return false;\n", ""),
    feed("waits-for-who-refuses", "export_feed_flush", " &&\n		    outlet->counts.state != EXPORT_HELD)", ")"),
    feed("in-flight-without-what-is-not-apart", "export_feed_stat",
         "	stat->in_flight += outlet->events - counts->taken;\n", ""),
    said("address-with-its-bracket", "otlp.c:put_address", "host += *text == '[';", "host += 0;"),
    said("peer-of-bind", "otlp.c:put_address", 'strcmp(event->probe->function, "bind");', 'strcmp(event->probe->function, "");'),
    said("text-as-a-number", "otlp.c:put_value",
         " ||\n	    as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT)\n", ")\n"),
    said("duration-of-a-call-that-never-came-back", "otlp.c:put_call",
         "	if (event->field[0] == RT_DURATION_NEVER)\n		return;\n", ""),
    said("host-of-each-boot", "otlp.c:make_resource", '"service.instance.id", run->name', '"service.instance.id", run->boot_text'),
    said("slow-is-info", "otlp.c:put_severity", "	case EXPORT_SLOW:\n", ""),
    said("descriptor-of-64-bits", "event.c:export_event_value",
         "as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_FD ? 32 : as->bits", "as->bits"),
    said("sign-lost", "event.c:export_event_value", "	case RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED:\n", ""),
    said("errno-4095-is-a-result", "event.c:export_event_errno", "event->field[1] < (uint64_t)-ERRNO_MAX)",
         "event->field[1] <= (uint64_t)-ERRNO_MAX)"),
    said("signal-with-its-core", "event.c:export_event_signal", "0x7f", "0xff"),
    said("line-over-its-end", "event.c:put_bytes", "n < room ? n : room", "n"),
    body("thread-of-another", "otlp.c:is_same_thread", "a->thread.pid == b->thread.pid", "true"),
    body("thread-of-another-uid", "otlp.c:is_same_thread", "a->thread.uid == b->thread.uid", "true"),
    body("thread-of-before-its-exec", "otlp.c:is_same_thread",
         "memcmp(a->thread.comm, b->thread.comm, sizeof(a->thread.comm)) == 0", "true"),
    body("message-not-moved", "pack.c:export_pack_close", "	if (width != place.width)\n", "	if (false)\n"),
    body("empty-is-there", "loki.c:size_of", "bytes ? export_pack_size(bytes) : 0", "export_pack_size(bytes)"),
    said("pack-fails-and-goes-on", "pack.c:export_pack_grow", "	if (pack->failed)\n		return NULL;\n", ""),
    said("errors-of-no-tree", "otlp.c:goes_out", "event->span.in_tree && event->class == EXPORT_ERROR", "event->class == EXPORT_ERROR"),
    said("link-to-itself", "otlp.c:put_own", "put_ids(pack, 1, event->span.trace_id,", "put_ids(pack, 1, id,"),
    said("level-of-an-error", "loki.c:level_of", '		return "error";', '		return "warn";'),
    said("nanoseconds-of-the-second-lost", "loki.c:put_time", "ns % NS_PER_S", "0"),
    metrics("gauge-since-the-start", "otlp.c:make_number", "	if (family->type == METRIC_COUNTER)\n", "	if (true)\n"),
    metrics("delta", "otlp.c:make_data",
            "		metric->sum->aggregation_temporality =\n			RINGTAIL__OTLP__TEMPORALITY__TEMPORALITY_CUMULATIVE;\n", ""),
    metrics("part-goes-on-too-far", "otlp.c:cut_points", "		points -= left;\n", ""),
    metrics("part-begins-too-soon", "otlp.c:cut_points", "		from -= skipped;\n", ""),
    metrics("part-with-empty-metrics", "otlp.c:pack_cut", "if (left && *left)", "if (left)"),
    metrics("buckets-not-cumulated", "remote_write.c:add_histogram", "sum += from->bucket[i];", "sum = from->bucket[i];"),
    metrics("labels-unsorted", "remote_write.c:set_labels", "	qsort(list, n, sizeof(*list), compare_labels);\n", ""),
    metrics("labels-without-a-value", "remote_write.c:set_labels", "		if (point->label[i].value[0])\n", ""),
    metrics("histogram-cut-before-its-sum", "remote_write.c:skip_point", "histogram ? 2 : 1", "1"),
    metrics("seconds-for-milliseconds", "remote_write.c:add_series", "realtime_ns / 1000000)", "realtime_ns / 1000000000)"),
    target("secret-shown", "refuse_url", "strchr(word, '@') ?", "strchr(word, '#') ?"),
    ("export-target-user-in-the-url", "daemon/export/http.c:refuse_parts", "has_part(url, CURLUPART_USER) ||", "false &&",
     ["unit/export_targets"]),
    target("header-of-another-kind", "add_header", "		if (kind && target->kind != kind)\n			continue;\n", ""),
    target("header-of-two-lines", "check_value", "(*at < 0x20 && *at != '\\t')", "(*at < 0x0a)"),
    target("own-headers-in-other-case", "is_ours", "strncasecmp(", "strncmp("),
    target("secret-with-its-second-line", "read_secret", "	value[strcspn(value, \"\\r\\n\")] = '\\0';\n", ""),
    target("twice-of-another-kind", "add_target", "targets->target[i].kind == target->kind &&", "true &&"),
    target("authority-that-is-closed", "may_read", "return stat->st_mode & S_IRGRP;", "return true;"),
    live("calls-of-the-fewest", "by_time", "(right->calls > left->calls) - (right->calls < left->calls)",
         "(right->calls < left->calls) - (right->calls > left->calls)"),
    live("oldest-second-twice", "http_history_write", "history->seconds > HTTP_HISTORY_SECONDS", "false"),
    live("seconds-add-up", "on_tick", "	history->duration = duration;\n", ""),
    live("loss-of-the-first-reason", "http_live_losses", "		before = \",\";\n", ""),
    live("exporter-lost-for-accepted", "write_spools", "one->events, one->accepted, one->filtered,",
         "one->events, one->filtered, one->accepted,"),
    live("clients-without-end", "write_clients", " && i < CLIENTS_SHOWN", ""),
    sender("own-headers-lost", "set_headers", "i < config->headers_count &&", "i + 1 < config->headers_count &&"),
    sender("two-runs-in-one", "build_request", " && event->run == run)", ")"),
    sender("rest-waits-no-moment", "add_request", "	sender->queued_ns = clock_monotonic();\n", ""),
    sender("lost-for-memory-uncounted", "make_request", "		sender->counts.memory += events;\n", ""),
    sender("what-is-on-its-way-expires", "keep_bound", "!sender->call && !TAILQ_EMPTY(&sender->requests)",
           "!TAILQ_EMPTY(&sender->requests)"),
    sender("aside-is-kept-longest", "keep_bound", "		if (!TAILQ_EMPTY(&sender->aside)) {", "		if (false) {"),
    sender("any-answer-wants-tls", "wants_tls", 'strncmp(sender->config.url, "http:", 5) == 0 &&', "true &&"),
    sender("no-memory-to-post-and-no-other-try", "send_first",
           '		try_again(sender, &none, EXPORT_RETRYING, "out of memory");\n', "		(void)none;\n"),
    choose("error-that-never-came-back", "export_event_errno", " || event->field[0] == RT_DURATION_NEVER ||", " ||"),
    choose("ends-of-any-thread", "choose_call", "if (group || event->thread.tid == event->thread.pid)", "if (true)"),
    choose("kernel-threads-that-end", "choose", " &&\n	    !event->thread.kernel)", ")"),
    choose("signal-of-who-was-not-killed", "choose_exit", "signal > 0 ||", "signal >= 0 ||"),
    choose("rate-saved-up", "export_choose_within_rate",
           "		if (chooser->tokens_ns > NS_PER_S)\n			chooser->tokens_ns = NS_PER_S;\n", ""),
    choose("filter-of-everything-else", "export_choose_request", '"(%s) && (%s)"', '"(%s) && %s"'),
    choose("order-of-one-time-by-number", "compare", "	if (a->cpu != b->cpu)\n		return a->cpu < b->cpu ? -1 : 1;\n", ""),
    ("export-choose-pids-that-meet", "daemon/export/tree.c:find", "		if (process->pid == pid)\n", "", ["unit/export_choose"]),
    run("host-of-another-name", "export_run_of_hello", "	if (strcmp(run->name, here->name) == 0)\n", ""),
    run("catalog-of-this-run-from-a-frame", "export_run_take_catalog", "	if (run->described) {", "	if (false) {"),
    run("probe-beyond-its-table", "describe_probe", "probe->id >= RT_PROBE_MAX ||", "probe->id > RT_PROBE_MAX ||"),
    run("name-cut-for-a-path", "set_exe", "	if (context->exe[0] == '/')\n", ""),
    run("contexts-of-one-place-are-one", "is_same", "!memcmp(context->text, thread->exe->data, context->exe_bytes)", "true"),
    intake("frame-longer-than-it-says", "export_intake_frame", "	    bytes == FRAME_HEADER_BYTES + header.body_bytes &&\n", ""),
    intake("bye-lets-nothing-go", "export_intake_frame", "header.type == FRAME_BYE)\n			pass_on", "false)\n			pass_on"),
    intake("run-of-a-damaged-hello", "take_hello", "	leave_run(intake);\n", ""),
    intake("unordered-uncounted", "take_batch",
           "			counter_add(COUNTER_export_events_unordered, intake->order.events);\n", "", "unit/export_sender"),
]
