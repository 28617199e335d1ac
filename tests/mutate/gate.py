"""Mutants of who is let in as what, and of what is kept of it."""
GATE = "daemon/access/gate.c"
ROLES = "daemon/access/roles.c"
AUDIT = "daemon/access/audit.c"
AUDIT_RATE = "daemon/access/audit_rate.c"

MUTANTS = [
    ("gate-token-in-clear", GATE, "	if (identity->proof == IDENTITY_LOCAL) {\n		error_set(error, EACCES, \"token-in-clear\"",
     "	if (false) {\n		error_set(error, EACCES, \"token-in-clear\"", ["unit/gate"]),
    ("gate-unproved-comes-in", GATE, "	if (identity->proof == IDENTITY_UNPROVED) {", "	if (false) {", ["unit/gate"]),
    ("gate-token-that-was-taken-out", GATE, "!(gate->tokens && tokens_hold(gate->tokens, identity));",
     "!gate->tokens;", ["unit/gate"]),
    ("gate-viewer-is-enough", GATE, "	if (identity->role >= needed)", "	if (identity->role >= ROLE_VIEWER && needed)",
     ["unit/gate"]),
    ("gate-anybody-views", GATE, "	return gate_allow(gate, identity, ROLE_VIEWER, \"see anything here\", error);",
     "	return gate_allow(gate, identity, ROLE_NONE, \"see anything here\", error);", ["unit/gate"]),
    ("roles-local-operates", "daemon/config/rule.c", "	if (rule->kind == RULE_LOCAL && role == ROLE_OPERATOR) {", "	if (false) {",
     ["unit/gate"]),
    ("roles-user-by-number-alone", ROLES,
     "		return identity->proof == IDENTITY_USER && identity->uid == entry->id;",
     "		return identity->uid == entry->id;", ["unit/gate"]),
    ("roles-group-without-proof", ROLES, "identity->proof == IDENTITY_USER && i < identity->groups; i++)",
     "i < identity->groups; i++)", ["unit/gate"]),
    ("roles-first-rule-wins", ROLES, " && roles->entry[i].rule.role > role)", " && !role)", ["unit/gate"],
     "operators' rules stand before viewers': the first that matches is of the highest role"),
    ("roles-cert-by-a-token", ROLES,
     "		return identity->proof == (rule->kind == RULE_CERT ? IDENTITY_CERT : IDENTITY_TOKEN) &&",
     "		return identity->proof >= IDENTITY_LOCAL &&", ["unit/gate"]),
    ("roles-defaults-beside-rules", ROLES, "	if (!err && !viewer->count && !operator->count)", "	if (!err)",
     ["unit/gate"]),
    ("audit-torn-line-swallows-the-next", AUDIT, "	if (file->torn)\n", "	if (false)\n", ["unit/always_on"]),
    ("audit-not-synced", AUDIT, "		err = disk->ops->sync(disk, handle);\n", "		err = 0;\n", ["unit/always_on", "unit/control"]),
    ("audit-grows-without-end", AUDIT, "file->bytes + bytes > AUDIT_BYTES_MAX) {", "file->bytes > 2 * AUDIT_BYTES_MAX) {",
     ["unit/always_on"]),
    ("audit-half-a-write-is-whole", AUDIT, "		n -= (size_t)written;", "		n = 0;", ["unit/always_on"]),
    ("audit-denied-not-cut", AUDIT, "	bool whole = audit_allows(attempt);", "	bool whole = audit_allows(attempt) || attempt;",
     ["unit/always_on"]),
    ("audit-rate-forgets-the-rest", AUDIT_RATE, "	talker->more++;\n", "", ["unit/always_on"]),
    ("audit-rate-takes-one-more", AUDIT_RATE, "	if (talker->said < rate->max) {", "	if (talker->said <= rate->max) {",
     ["unit/always_on"]),
]
