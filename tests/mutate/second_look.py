"""What a second examiner broke, who did not look at the tests before: of all rooms, by the weight of their code."""
SPOOL, CLIENT = "daemon/spool/", "client/"
DISK, FILES = ["unit/disk"], ["unit/disk_file"]
PUMP, ELF, REPLAY = ["unit/pump"], ["unit/elf_symbols"], ["tests/unit/daemon/test_recording.c"]
SECRET, SANDBOX = ["unit/secret_file"], ["unit/sandbox"]
BODY, HTTP = ["unit/export_body"], ["unit/export_http"]
NAMES = ["unit/stack_names"]
PLAYER, PLAYED = "daemon/source/replay.c:", ["unit/source_replay_threads"]

MUTANTS = [
    # What the first examiner's units left.
    ("begin-that-never-was-is-damage", SPOOL + "read.c:missing_at_begin",
     "		if (!store->segment[i]->hollow)\n			return", "		return", ["unit/spool_damage"]),
    ("begin-that-never-was-is-deleted", SPOOL + "read.c:missing_at_begin",
     "store->segments ? store->segment[0]->sequence", "oldest ? oldest->sequence", ["unit/spool_damage"]),
    ("spool-opens-before-one-that-waits", SPOOL + "spool.c:must_wait", "!is_idle(older))", "older->busy)", ["unit/spool"]),
    ("stack-names-of-the-process-before", CLIENT + "cli/stack_names.c:get_process", "	process->maps = 0;", "	;", NAMES),

    # The disk itself.
    ("disk-directory-stays", "daemon/disk/disk.c:posix_remove", "errno == EISDIR", "errno == ENOTDIR", DISK),
    ("disk-list-ends-where-it-fails", "daemon/disk/disk.c:posix_list",
     "	err = -errno;\n	closedir(directory);", "	err = 0;\n	closedir(directory);", DISK),
    ("disk-read-gives-up-when-interrupted", "daemon/disk/disk.c:posix_read", "while (got < 0 && errno == EINTR);",
     "while (false);", DISK),
    ("disk-write-gives-up-when-interrupted", "daemon/disk/disk.c:posix_write", "while (put < 0 && errno == EINTR);",
     "while (false);", DISK),
    ("disk-directory-sync-never-fails", "daemon/disk/disk.c:posix_sync_directory", "		err = -errno;", "		;", DISK),
    ("disk-spools-of-somebody-else", "daemon/disk/disk.c:disk_posix_open", " && is_writable(fd, \"spool\")", "", DISK),
    ("disk-closed-twice", "daemon/disk/disk.c:disk_posix_close", "	*disk = (struct disk){.dir_fd = -1, .lock_fd = -1};\n", "", DISK),
    ("disk-file-without-its-last-byte", "daemon/disk/disk.c:disk_file_read", "*bytes < bytes_max)", "*bytes + 1 < bytes_max)", FILES),
    ("disk-file-with-what-was-left-behind-it", "daemon/disk/disk.c:disk_file_replace", " | O_TRUNC", "", FILES),
    ("disk-written-is-the-last-piece", "daemon/disk/disk.c:disk_write_all", "*written += ", "*written = ", FILES),
    ("disk-thread-leaves-signals-blocked", "daemon/disk/thread.c:start_thread",
     "	pthread_sigmask(SIG_SETMASK, &before, NULL);\n", "", DISK),
    ("disk-thread-takes-signals", "daemon/disk/thread.c:start_thread", "	sigfillset(&all);", "	sigemptyset(&all);", DISK),

    # Who reads the events.
    ("pump-gap-of-no-size-is-no-loss", "client/cli/pump.c:verdict_of", "totals->gaps || ", "", PUMP),
    ("pump-place-kept-again-and-again", "client/cli/pump.c:acknowledge", "	leg->unacked = false;\n", "", PUMP),
    ("pump-acknowledges-before-it-keeps", "client/cli/pump.c:acknowledge",
     "	if (pump->cursor_path && save_place(leg))\n		return false;\n"
     "	/* A connection that breaks is noticed where it is read. */\n	if (pump->acknowledges)\n"
     "		ringtail_ack(leg->ringtail, &(struct ringtail_error){ 0 });\n",
     "	if (pump->acknowledges)\n		ringtail_ack(leg->ringtail, &(struct ringtail_error){ 0 });\n"
     "	if (pump->cursor_path && save_place(leg))\n		return false;\n", PUMP),
    ("pump-maps-count", "client/cli/pump.c:is_enough", " - leg->hidden - leg->left_out", " - leg->left_out", PUMP),
    ("pump-duration-wraps", "client/cli/pump.c:begin_duration", " && pump->duration_ns < UINT64_MAX - now_ns", "", PUMP),

    # Names of code.
    ("elf-note-without-end-is-passed-over", "query/elf_symbols.c:take_notes",
     "		if (note.n_namesz > bytes || note.n_descsz > bytes)\n			return;\n", "", ELF),
    ("elf-build-id-too-long", "query/elf_symbols.c:take_notes", "<= BUILD_ID_BYTES", "<= 2 * BUILD_ID_BYTES", ELF),
    ("elf-empty-table-is-all", "query/elf_symbols.c:read_sections",
     "	symbols->all = symbols->all && symbols->functions;\n", "", ELF),
    ("elf-name-beyond-the-names", "query/elf_symbols.c:take_functions", "symbol[i].st_name >= symbols->names_bytes || ", "", ELF),
    ("elf-function-of-another-file", "query/elf_symbols.c:take_functions", " || symbol[i].st_shndx == SHN_UNDEF", "", ELF),
    ("elf-some-functions-are-all", "query/elf_symbols.c:read_sections", "symbols->all = t == 0;", "symbols->all = true;", ELF),
    ("jit-function-around-the-end", "client/cli/jit_symbols.c:take_line", " || address > UINT64_MAX - bytes", "", ["unit/jit_symbols"]),
    ("stack-names-map-below-a-newer-one", "client/cli/stack_names.c:add_map",
     "map->start + map->bytes <= old->start", "map->start <= old->start", NAMES),
    ("stack-names-inode-of-another-machine", "client/cli/stack_names.c:load_same", "!here || fstat", "fstat", NAMES),
    ("stack-names-of-any-path", "client/cli/stack_names.c:get_file", " || strcmp(file->path, wanted->path)", "", NAMES),
    ("stack-names-of-the-return-address", "client/cli/stack_names.c:stack_names_find", "into = i > 0", "into = i > 1", NAMES),
    ("stack-names-newest-map-goes", "client/cli/stack_names.c:add_map",
     "		memmove(process->map, process->map + 1, --kept * sizeof(*process->map));", "		--kept;", NAMES),

    # Numbers, frames and cursors as text.
    ("quantity-of-ten-decimals", "query/quantity.c:read_fraction", "		if (i > FRACTION_DIGITS_MAX)\n			return -ERANGE;\n", "",
     ["unit/quantity"]),
    ("cursor-boot-id-without-end", "client/lib/cursor.c:parse_boot_id", " || digits == 32", "", ["tests/unit/client/test_cursor.c"]),
    ("frame-reader-interrupted-is-the-end", "client/lib/frame_reader.c:frame_reader_fill", "errno == EAGAIN || errno == EINTR",
     "errno == EAGAIN", ["unit/frame_reader"]),
    ("spool-dir-gone-before-anything-came", "client/cli/spool_dir.c:send_gone", "	if (!dir->given)\n		return true;\n", "",
     ["unit/spool_dir"]),
    ("spool-dir-listed-without-end", "client/cli/spool_dir.c:list_anew", "++*lists > SPOOL_LISTS_MAX || ", "++*lists == 0 || ",
     ["unit/spool_dir"]),

    # What is replayed.
    ("recording-read-interrupted-fails", "daemon/source/recording.c:read_at",
     "		if (n < 0 && errno == EINTR)\n			continue;\n", "", REPLAY),
    ("recording-first-time-is-of-the-first", "daemon/source/recording.c:add_batch",
     " || item.event.time_ns < recording->first_ns", "", REPLAY),
    ("recording-turn-without-end", "daemon/source/recording.c:choose_stream",
     "			if (recording->current)\n				recording->turn_end_ns = recording->current->time_ns;\n", "", REPLAY),
    ("recording-goes-on-behind-a-failure", "daemon/source/recording.c:recording_next",
     "	if (recording->over)\n		return recording->over;\n", "", REPLAY),

    ("replay-text-without-its-id", PLAYER + "tell", "	payload.text.id = id;\n", "", PLAYED),
    ("replay-text-told-each-time", PLAYER + "tell", "	thread_table_learn_text(ring->threads, id, text->data, text->bytes);\n", "",
     PLAYED),
    ("replay-cgroup-called-as-an-exe", PLAYER + "tell", "(id & ~RT_TEXT_EXE) | kind", "id & ~RT_TEXT_EXE", PLAYED),
    ("replay-texts-of-one-length-are-the-same", PLAYER + "tell", "(id ^ (uint8_t)text->data[i])", "(id ^ text->bytes)", PLAYED),
    ("replay-exe-is-not-looked-at", PLAYER + "same_text", "!memcmp(a->data, b->data, a->bytes)", "true", PLAYED),
    ("replay-user-is-another", PLAYER + "is_introduced", "known->uid == thread->uid && ", "", PLAYED),
    ("replay-cgroup-moved", PLAYER + "is_introduced", "known->cgroup_id == thread->cgroup_id && ", "", PLAYED),
    ("replay-unwanted-is-not-played", PLAYER + "play_event",
     "	atomic_fetch_add_explicit(&player->source->events, 1, memory_order_relaxed);\n", "", PLAYED),
    ("replay-ring-stays-open", PLAYER + "replay_close", "		ring_writer_destroy(source->ring[i].writer);\n", "", PLAYED),
    ("replay-clauses-one-too-many", PLAYER + "replay_configure", "> RT_FILTER_CLAUSES_MAX", "> RT_FILTER_CLAUSES_MAX + 1", PLAYED),
    ("replay-string-of-no-call-is-shifted", PLAYER + "arg_of_field", "info->has_duration && ", "", ["unit/source_replay"]),
    ("replay-times-slip", PLAYER + "keep_pace", "time_ns - LEAD_NS);", "time_ns + LEAD_NS);", ["unit/source_replay_pace"]),

    # What goes out.
    ("loki-text-of-no-field", "daemon/export/loki.c:add_strings", "		else if (event->string_field[i] < event->fields)", "		else", BODY),
    ("http-part-of-a-body-is-all", "daemon/export/http.c:finish", "(size_t)sent == call->post.bytes", "sent > 0", HTTP),
    ("http-by-a-proxy", "daemon/export/http.c:set_up", "curl_easy_setopt(easy, CURLOPT_PROXY, \"\") == CURLE_OK", "true", HTTP),
    ("http-authority-unreadable-is-no-mistrust", "daemon/export/http.c:is_about_tls", "	case CURLE_SSL_CACERT_BADFILE:\n", "", HTTP),
    ("metric-labels-cost-nothing", "daemon/metrics/metric.c:point_bytes", "strlen(label[i].value) + 1", "0", ["unit/metric"]),
    ("export-comes-late-out-of-order", "daemon/export/intake.c:export_order_put", "		order->unsorted = true;\n", "		;\n", ["unit/export_choose"]),
    ("export-retries-as-soon-as-it-is-told", "daemon/export/sender.c:export_retry_ns", "asked_ns > wait ?", "asked_ns ?", BODY),
    ("cursor-assigned-beyond-its-room", "proto/cursor.c:cursor_assign", "from->n < to->capacity ? from->n : to->capacity",
     "from->n", ["tests/unit/proto/test_cursor.c"]),

    # Who may come in, and what a process may do.
    ("gate-certificate-wanted-of-nobody", "daemon/access/gate.c:load", ".cert_optional = config->tokens,", ".cert_optional = true,",
     ["unit/gate"]),
    ("secret-in-a-sticky-directory-of-another", "daemon/host/secret_file.c:judge_dir", " || owner != 0)", ")", SECRET),
    ("secret-pipe-is-waited-for", "daemon/host/secret_file.c:step", "O_CLOEXEC | O_NONBLOCK);", "O_CLOEXEC);", SECRET),
    ("sandbox-any-prctl", "daemon/host/sandbox.c:allow_own", "SCMP_SYS(prctl), 1,\n				   SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));",
     "SCMP_SYS(prctl), 0);", SANDBOX),
    ("sandbox-signals-threads-of-others", "daemon/host/sandbox.c:allow_own",
     "SCMP_SYS(tgkill), 1,\n				      SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));", "SCMP_SYS(tgkill), 0);", SANDBOX),
    ("sandbox-process-in-this-memory", "daemon/host/sandbox.c:allow_threads", "CLONE_THREAD, CLONE_THREAD", "CLONE_VM, CLONE_VM", SANDBOX),
    ("sandbox-engine-kills-anybody", "daemon/host/sandbox.c:sandbox_engine",
     "SCMP_SYS(kill), 2,\n				       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)engine->loader),\n", "SCMP_SYS(kill), 1,\n", SANDBOX),
    ("sandbox-samples-a-process", "daemon/host/sandbox.c:allow_cpu_events",
     "SCMP_SYS(perf_event_open), 3,\n				SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)-1),\n", "SCMP_SYS(perf_event_open), 2,\n", SANDBOX),
    ("sandbox-samples-into-a-group", "daemon/host/sandbox.c:allow_cpu_events",
     "SCMP_SYS(perf_event_open), 3,\n				SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)-1),\n"
     "				SCMP_A3(SCMP_CMP_EQ, (scmp_datum_t)-1),\n",
     "SCMP_SYS(perf_event_open), 2,\n				SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)-1),\n", SANDBOX),
    ("sandbox-finder-signals-anything", "daemon/host/sandbox.c:allow_readers",
     "SCMP_SYS(kill), 1,\n					    SCMP_A1(SCMP_CMP_EQ, SIGKILL));", "SCMP_SYS(kill), 0);", SANDBOX),
    ("sandbox-finder-makes-roots", "daemon/host/sandbox.c:allow_readers", "CLONE_VM | CLONE_NEWUSER | 0xff", "CLONE_VM | 0xff", SANDBOX),
    ("sandbox-every-finder-samples", "daemon/host/sandbox.c:sandbox_finder", "	if (!err && attaches)\n", "	if (!err)\n", SANDBOX),
    ("sandbox-reader-finds", "daemon/host/sandbox.c:sandbox_reader", "allow(filter, reader_calls, LENGTH(reader_calls))",
     "allow(filter, finder_calls, LENGTH(finder_calls))", SANDBOX),
    ("view-holds-programs", "daemon/host/sandbox.c:place_mount", " | MOUNT_ATTR_NOEXEC", "", ["unit/sandbox_view"]),
    ("view-mounts-below-a-place-stay-as-they-are", "daemon/host/sandbox.c:place_mount", "AT_EMPTY_PATH | AT_RECURSIVE", "AT_EMPTY_PATH",
     ["unit/sandbox_view"]),
    ("privileges-loader-is-the-engine", "daemon/host/privileges.c:find_number", "id == engine->uid || ", "", ["unit/privileges"]),
    ("privileges-root-without-its-groups", "daemon/host/privileges.c:work_as",
     "	if (setgroups((size_t)groups, group) != 0 && !err)\n		err = -errno;\n", "", ["unit/as_user"]),
    ("privileges-files-open-to-all", "daemon/host/privileges.c:make_directory", "	umask(before);\n", "	(void)before;\n", ["unit/as_user"]),
    ("redaction-array-is-never-cut", "daemon/collect/redaction.c:hides_attachment", "bytes == attachment->bytes ? cut : CUT_NOWHERE",
     "CUT_NOWHERE", ["unit/redaction"]),
]
