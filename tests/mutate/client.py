"""Mutants of what the client checks for itself."""
LEDGER = "client/lib/ledger.c"

MUTANTS = [
    ("ledger-hole-unseen", LEDGER, "	if (at->known && first_seq > at->seq)\n",
     "	if (false)\n", ["unit/ledger"]),
    ("ledger-duplicate-unseen", LEDGER, "		at->begins = false;\n", "", ["unit/ledger"]),
    ("ledger-duplicate-counted-whole", LEDGER,
     "(at->seq < end_seq ? at->seq : end_seq) - first_seq", "end_seq - first_seq", ["unit/ledger"]),
    ("ledger-start-forgets-where-it-stood", LEDGER, "	if (!at->known)\n		*at",
     "	if (true)\n		*at", ["unit/ledger"]),
    ("ledger-watermark-skips-anything", LEDGER, " && seq - at->seq > skipped)", " && false)",
     ["unit/ledger"]),
    ("ledger-watermark-goes-back", LEDGER, "	if (!at->known || seq > at->seq)\n		at->seq = seq;\n	at->known = true;\n	return 0;\n}\n\nvoid ledger_cursor",
     "	at->seq = seq;\n	at->known = true;\n	return 0;\n}\n\nvoid ledger_cursor", ["unit/ledger"]),
    ("ledger-span-backwards", LEDGER, "	if (end_seq < first_seq)\n		return -EBADMSG;\n", "",
     ["unit/ledger"]),
]
