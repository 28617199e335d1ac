"""Mutants of triggers: when a rule fires, and how many dumps are written at once."""
TRIGGERS = "daemon/trigger/triggers.c"
TESTS = ["unit/triggers"]

MUTANTS = [
    ("trigger-fires-above-its-rate-alone", TRIGGERS + ":match", "} else if (rate >= (", "} else if (rate > (", TESTS),
    ("trigger-fires-again-at-once", TRIGGERS + ":match", "if (trigger->state == FIRED) {", "if (false) {", TESTS),
    ("trigger-rate-of-all-time", TRIGGERS + ":rate_add", "		memset(rate->matches, 0, sizeof(rate->matches));",
     "		;", TESTS),
    ("trigger-dump-that-is-done-takes-room", TRIGGERS + ":on_dump_done", "	trigger->triggers->dumps--;\n", "", TESTS),
    ("trigger-one-dump-too-many", TRIGGERS + ":begin_dump", "triggers->dumps == DUMPS_AT_ONCE_MAX",
     "triggers->dumps > DUMPS_AT_ONCE_MAX", TESTS),
]
