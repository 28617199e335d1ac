"""Mutants of what follows user stacks without frame pointers: rows of .eh_frame, their index, and the way by them."""
TABLE = "daemon/source/unwind_table.c:"
LOADER = "daemon/source/bpf_unwind.c:"
BPF = "kmod/bpf/unwind.bpf.h:"
ROWS, KERNEL = ["unit/unwind_table"], ["bpf/unwind"]

MUTANTS = [
    ("unwind-leb-without-a-sign", TABLE + "take_leb", "is_signed && byte & 0x40", "is_signed && byte & 0", ROWS),
    ("unwind-pointer-from-the-sections-start", TABLE + "take_pointer",
     "section->address + (uint64_t)(bytes->at - section->all)", "section->address", ROWS),
    ("unwind-indirect-pointer-believed", TABLE + "take_pointer", "form & POINTER_INDIRECT || ", "", ROWS),
    ("unwind-large-frame-wraps", TABLE + "make_row", "INT16_MIN, INT16_MAX", "INT64_MIN, INT64_MAX", ROWS),
    ("unwind-far-rbp-wraps", TABLE + "make_row", "INT8_MIN, INT8_MAX", "INT64_MIN, INT64_MAX", ROWS),
    ("unwind-return-address-anywhere", TABLE + "make_row", " || state->rip.offset != -8", "", ROWS),
    ("unwind-end-goes-on", TABLE + "make_row", "state->rip.how == SAVED_NEVER", "false", ROWS),
    ("unwind-signal-is-an-expression", TABLE + "is_signal", "state->cfa == 160", "state->cfa == 161", ROWS),
    ("unwind-any-expression-is-a-plt", TABLE + "is_plt", "memcmp(at + n + 1, plt + n + 1, sizeof(plt) - n - 1) != 0 || ",
     "", ROWS),
    ("unwind-any-number-is-8", TABLE + "take_place", "take_leb(&expression, false) != 8", "!take_leb(&expression, false)",
     ROWS),
    ("unwind-row-before-its-place", TABLE + "advance", "	put_state(running);\n", "", ROWS),
    ("unwind-code-goes-on-behind-the-function", TABLE + "take_description",
     "	put_row(rows, running.first, running.end, (struct unwind_row){.rule = UNWIND_NONE});\n", "", ROWS),
    ("unwind-unknown-instruction-passed-over", TABLE + "run", "		    !run_save(running, operation, &program))\n			return false;",
     "		    !run_save(running, operation, &program))\n			continue;", ROWS),
    ("unwind-restore-restores-nothing", TABLE + "restore", "	if (saved)\n", "	if (false)\n", ROWS),
    ("unwind-too-many-states", TABLE + "run_place", "		if (running->depth == STATES_MAX)\n", "		if (running->depth > STATES_MAX)\n",
     ROWS),
    ("unwind-other-return-register", TABLE + "take_common", "of != RIP || ", "", ROWS),
    ("unwind-common-without-a-bound", TABLE + "take_common",
     " ||\n	    entry.end - entry.at > UNWIND_CIE_BYTES_MAX", "", ROWS),
    ("unwind-end-hides-the-next-function", TABLE + "compare",
     "(x->rule != UNWIND_NONE) - (y->rule != UNWIND_NONE)", "(y->rule != UNWIND_NONE) - (x->rule != UNWIND_NONE)", ROWS),
    ("unwind-table-of-another-machine", TABLE + "is_of_this_machine", " && header.e_machine == EM_X86_64", "", ROWS),
    ("unwind-blocks-without-rows", LOADER + "make_index", "			block[b].high++;\n", "			break;\n", KERNEL),
    ("unwind-tables-are-kept", "daemon/source/bpf.c:bpf_configure",
     "		source_bpf_unwind_forget(source->maps.unwind);\n", "		(void)source;\n", KERNEL),
    ("unwind-of-the-process-before", BPF + "unwind_in_map", "+ map->offset", "+ 0 * map->offset", KERNEL),
    ("unwind-signal-as-a-call", BPF + "unwind_by_signal", "sp + SIGNAL_RIP", "sp + SIGNAL_RIP - 8", KERNEL),
    ("unwind-keeps-what-is-no-code", BPF + "unwind_at_map", "			unwind->frames--;\n", "			;\n", KERNEL),
    ("unwind-cut-not-counted", "kmod/bpf/unwind.bpf.h", "		__sync_fetch_and_add(&stacks_cut, 1);\n", "", KERNEL),
    ("unwind-rbp-stays", BPF + "unwind_by_row", "if (!unwind_read(&unwind->bp, saved))", "if (!unwind_read(&saved, saved))",
     KERNEL),
]
