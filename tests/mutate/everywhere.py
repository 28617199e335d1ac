"""Mutants of what a host, its kernel and its containers refuse, and of what says so."""
HOST, CHECK = "query/bpf_host.c", "daemon/source/bpf_check.c"
DOCTOR, HOST_CHECK = "client/cli/cmd_doctor.c", "client/cli/host_check.c"
IS_HOST, IS_CHECK, IS_HOST_CHECK = ["unit/bpf_host"], ["unit/bpf_check"], ["unit/host_check"]
IS_DOCTOR = ["unit/tracectl"]

MUTANTS = [
    ("host-of-any-minor", HOST + ":bpf_host_is_old", " && minor < BPF_HOST_MINOR)", " && minor > BPF_HOST_MINOR)", IS_HOST),
    ("host-of-a-later-major", HOST + ":bpf_host_is_old", "(major == BPF_HOST_MAJOR && minor", "(minor", IS_HOST),
    ("host-lockdown-in-words-of-new-kernels", HOST + ":bpf_host_verifier_is_locked_down",
     'refused || strstr(log, "cannot use helper bpf_probe_read")', "refused", IS_CHECK),
    ("host-lockdown-of-any-helper", HOST + ":bpf_host_verifier_is_locked_down", '"unknown func bpf_probe_read"',
     '"unknown func bpf_"', IS_CHECK),
    ("host-admin-is-not-bpf", HOST + ":bpf_host_refusal", " && !(able >> CAPABILITY_ADMIN & 1)", "", IS_HOST),
    ("host-any-filter-is-in-the-way", HOST + ":bpf_host_refusal",
     "(err_no_command == EPERM || err_no_command == EACCES)", "(err_no_command || true)", IS_HOST),
    ("host-seccomp-before-the-namespace", HOST + ":is_of_user_namespace", "(inside != 0 || outside != 0 || count != USERS_ALL)",
     "false", IS_HOST),
    ("host-namespace-that-begins-with-root", HOST + ":is_of_user_namespace", " || count != USERS_ALL", "", IS_HOST),
    ("start-reads-lockdown-in-the-sandbox", CHECK + ":is_locked_down", "	return (said.verifier",
     "	note_lockdown();\n	return (said.verifier", IS_CHECK),
    ("start-does-not-name-lockdown", CHECK + ":source_bpf_check_failure", "if (is_locked_down(err))", "if (is_locked_down(err) && false)", IS_CHECK),
    ("start-does-not-name-signals", CHECK + ":source_bpf_check_failure", "if (err == EAGAIN)", "if (false)", IS_CHECK),
    ("doctor-no-lockdown-where-none-is-seen", HOST_CHECK + ":check_lockdown", "	if (err) {", "	if (err && false) {",
     IS_HOST_CHECK),
    ("doctor-lockdown-of-a-kernel-without", HOST_CHECK + ":check_lockdown", "err == -ENOENT && ", "err != -ENOENT && ",
     IS_HOST_CHECK),
    ("doctor-bpf-is-the-hosts", HOST_CHECK + ":check_bpf_refused", "	check->of_caller = true;\n", "", IS_HOST_CHECK),
    ("doctor-outsider-lacks-are-the-hosts", DOCTOR + ":check_host",
     "(way == WAY_OPEN || (way == WAY_FORBIDDEN && check.of_caller))", "(way == WAY_OPEN)", IS_DOCTOR),
    ("doctor-lets-outsiders-in", DOCTOR + ":cmd_doctor", " && way != WAY_FORBIDDEN", "", IS_DOCTOR),
    ("doctor-outsider-is-like-no-daemon", DOCTOR + ":check_daemon", 'strcmp(error.code, "no-permission") == 0', "false",
     IS_DOCTOR),
    ("tracepoints-left-out-in-silence", "daemon/source/bpf_tracepoint.c:tell_left_out", "	if (!left_out->count)",
     "	if (!left_out->unnamed)", ["unit/bpf_tracepoint"]),
    ("tracepoints-left-out-named-in-part", "daemon/source/bpf_tracepoint.c:leave_out",
     "	left_out->text[left_out->bytes] = '\\0';\n", "", ["unit/bpf_tracepoint"]),
    ("tracepoints-one-of-many-refuses-them", "daemon/source/bpf_tracepoint.c:make",
     "		if (cannot)\n			err = 0;\n		else\n", "", ["unit/bpf_tracepoint"]),
    ("tracepoints-left-out-end-the-list", "daemon/source/bpf_tracepoint.c:describe_all", "			err = 0;\n", "",
     ["unit/bpf_tracepoint"]),
]
