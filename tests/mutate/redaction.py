"""Mutants of what `redact` hides: texts that were cut, paths without their beginning, pieces, lines."""
REDACTION = "daemon/collect/redaction.c"
GLOB = "query/glob.c:glob_may_match_end"
HIDING, ENDS = ["unit/redaction"], ["unit/glob"]

MUTANTS = [
    ("redaction-text-cut-at-its-end-shown", REDACTION + ":hides", "(cut == CUT_END && glob_may_match(", "(false && glob_may_match(",
     HIDING),
    ("redaction-name-alone-shown", REDACTION + ":hides", "(cut == CUT_BEGIN && ", "(false && ", HIDING),
    ("redaction-middle-of-a-path-shown", REDACTION + ":hides", "cut == CUT_BOTH || ", "", HIDING),
    ("redaction-path-that-is-too-deep-taken-for-whole", REDACTION + ":cut_of_path", " || names >= RT_TEXT_NAMES_MAX", "", HIDING),
    ("redaction-deepest-path-taken-for-cut", REDACTION + ":cut_of_path", "names >= RT_TEXT_NAMES_MAX", "names >= RT_TEXT_NAMES_MAX - 1",
     HIDING),
    ("redaction-mark-of-a-cut-path-judged", REDACTION + ":behind_mark", "	return text + RT_TEXT_CUT_BYTES;",
     "	*bytes += RT_TEXT_CUT_BYTES;\n	return text;", HIDING),
    ("redaction-line-of-nothing-hidden", REDACTION + ":cut_of_path", "return bytes && ", "return ", HIDING),
    ("redaction-name-of-a-thread-taken-for-a-path", REDACTION + ":redaction_hides_text", "kind != THREAD_COMM ? cut_of_path",
     "true ? cut_of_path", HIDING),
    ("redaction-first-line-alone-judged", REDACTION + ":redaction_hides_text", "		text += length + 1;", "		text = end;", HIDING),
    ("redaction-what-has-no-path-taken-for-cut", REDACTION + ":cut_of_file", "text[0] != '/' && ", "false && ", HIDING),
    ("redaction-one-piece-hidden", REDACTION + ":judge_map", "pieces |= 1u << field;", "pieces = 1u << field;", HIDING),
    ("glob-end-of-a-longer-text-is-the-whole", GLOB, "if (!open && n <= bytes)", "if (false)", ENDS),
    ("glob-end-from-the-first-star", GLOB, "		if (star)\n			end = pattern;", "		if (star && !open)\n			end = pattern;", ENDS),
    ("glob-end-not-shortened", GLOB, "	for (; n > bytes; n--)\n		match_one(end, 0, &end);\n", "	n = n > bytes ? bytes : n;\n", ENDS),
]
