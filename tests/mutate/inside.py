"""Mutants of what the two processes give up, and of what they believe of each other."""
SANDBOX = "daemon/host/sandbox.c"
PRIVILEGES = "daemon/host/privileges.c"
DESCRIPTOR = "daemon/base/descriptor.c"
MESSAGE = "daemon/source/loader_message.c"
SERVE = "daemon/source/loader_serve.c"
LOADER = "daemon/source/loader.c"

MUTANTS = [
    ("sandbox-engine-may-exec", SANDBOX, "	SCMP_SYS(wait4),\n	SCMP_SYS(epoll_ctl),",
     "	SCMP_SYS(wait4), SCMP_SYS(execve),\n	SCMP_SYS(epoll_ctl),",
     ["unit/sandbox"]),
    ("sandbox-loader-may-open", SANDBOX, "	SCMP_SYS(bpf),		SCMP_SYS(ioctl),",
     "	SCMP_SYS(bpf), SCMP_SYS(openat), SCMP_SYS(ioctl),", ["unit/sandbox"]),
    ("sandbox-exporter-may-map-code", SANDBOX, "seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(mmap)",
     "seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap)", ["unit/sandbox"]),
    ("privileges-groups-stay", PRIVILEGES, " || setgroups(0, NULL) != 0 ||", " ||",
     ["unit/privileges"]),
    ("privileges-bounds-stay", PRIVILEGES, "	forget_bounds();\n", "	(void)forget_bounds;\n", ["unit/privileges"]),
    ("privileges-loader-stays-root", SERVE,
     "privileges_keep(config->account ? config->account : &same, keep,",
     "privileges_keep(config->account ? &same : &same, keep,", ["scenario/privileges_dropped"]),
    ("loader-sees-files", SERVE, "	err = enter_view(error);\n", "	err = 0;\n	(void)enter_view;\n",
     ["scenario/privileges_dropped"]),
    ("loader-message-fourth-descriptor", DESCRIPTOR, "			if (*n < most)",
     "			if (*n <= most)", ["unit/loader_message"]),
    ("loader-message-of-either-end", MESSAGE, "	return kind->sender == sender && fds",
     "	return (kind->sender == sender || sender) && fds", ["unit/loader_message"]),
    ("loader-message-leaves-descriptors", DESCRIPTOR, "	while (*n)\n		close(fds[--*n]);",
     "	*n = 0;", ["unit/loader_message"]),
    ("loader-message-that-does-not-fit-leaves-descriptors", MESSAGE, "	while (*n)\n		close(fds[--*n]);",
     "	*n = 0;", ["unit/loader_message"]),
    ("loader-message-of-any-length", DESCRIPTOR, "	if ((size_t)got == bytes && !(",
     "	if (!(", ["unit/loader_message"]),
    ("loader-arrived-is-a-report", LOADER, "		close_all(fds, n);\n		return true;\n	default:",
     "		close_all(fds, n);\n		return false;\n	default:", ["unit/loader_arrived"]),
    ("loader-arrived-not-taken", LOADER, "		if (add_made(loader, message->arrived_bytes, fds[0], &error) != 0)",
     "		if (loader->gone && add_made(loader, message->arrived_bytes, fds[0], &error) != 0)",
     ["unit/loader_arrived"]),
    ("loader-arrived-of-a-program", LOADER, "	if (probe->id < RT_PROBE_MADE || probe->id >= RT_PROBE_PROGRAM ||",
     "	if (probe->id < RT_PROBE_MADE ||", ["unit/loader_arrived"]),
    ("loader-arrived-not-asked-for", SERVE,
     "		if (ops->arrived && poll_fd[2].revents && (told = tell_arrived(",
     "		if (ops->arrived && poll_fd[1].revents && (told = tell_arrived(", ["unit/loader_arrived"]),
]
