/*
 * finder: the process that opens programs and libraries for uprobes and USDT probes, and says where in them
 * the probes lie.
 *
 *	loader ── "this file, this name" ──► finder ──forks──► reader
 *	       ◄── the file, open, and its places in the code ──┘
 *
 * The loader, which holds CAP_BPF, opens no path and parses no file. The finder opens and parses nothing: it
 * forks a reader for each question and ends one that takes too long (a file may lie on a file system whose owner
 * does not answer). A reader opens the file, then gives up every capability and every system call that opens
 * something, and only then reads it. The finder can load no program and has no network.
 *
 * Before Linux 6.6 a uprobe is a perf event, for which newer kernels demand CAP_SYS_ADMIN: there, and only there, the
 * finder keeps that right, and opens such events for the loader, which has not.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_FINDER_H
#define RINGTAIL_DAEMON_SOURCE_FINDER_H

#include <sys/types.h>

#include "daemon/source/file_probe.h"
#include "daemon/source/bpf_places.h"
#include "proto/limits.h"
#include "query/elf_symbols.h"
#include "query/error.h"

struct account;

/* What the loader has of it: its end of the socket. */
struct finder {
	int socket;			/* -1: there is none */
	pid_t pid;
	uint64_t questions;
};

struct finder_question {
	uint64_t number;
	uint32_t kind;			/* enum file_probe_kind */
	uint32_t lists;			/* names that match, rather than the places of one */
	uint32_t unwinds;		/* the rows of unwind_table.h, rather than a place */
	uint32_t zero0;
	uint32_t attaches;		/* an event of a place in the file whose descriptor goes with the question: */
	uint32_t is_return, semaphore;
	struct probe_unit unit;
	uint64_t offset;
	char path[NAME_BYTES_MAX + 1];
	char name[NAME_BYTES_MAX + 1];	/* of what lists: a glob */
};

/*
 * With a descriptor: the file; of what lists: a memory file of the names, "name\0" each; of what unwinds: one of rows,
 * struct unwind_row each; of what attaches: the event.
 */
struct finder_answer {
	uint64_t number;		/* the question's */
	int32_t err;			/* 0, or -errno with `error` */
	uint32_t names;			/* or rows of struct unwind_row, */
	uint64_t names_bytes;		/* and the bytes of all */
	uint8_t build_id[BUILD_ID_BYTES];	/* of what unwinds: the file's */
	uint32_t zero0;
	uint64_t device, inode;		/* of the file that was opened: fstat() */
	struct file_sites sites;
	struct error error;
};

/*
 * Forks it, before anything is given up. It becomes `account` (NULL: stays who it is) and keeps the rights to
 * read any file and to look into any process's file tree, where it has them; and, if it `attaches`, the one that
 * perf events of places in files take. -errno with *error.
 */
int finder_start(struct finder *finder, const struct account *account, bool attaches, struct error *error);

/* Closes our end: it ends. */
void finder_stop(struct finder *finder);

/*
 * Asks, and waits for FIND_NS_MAX at most; for what unwinds, UNWIND_FILE_NS_MAX. 0: *answer, checked, and *fd, which is
 * the caller's. -errno with *error: why not.
 */
int finder_ask(struct finder *finder, struct finder_question *question, struct finder_answer *answer,
	       int *fd, struct error *error);

/* An event of a place in an open file: its descriptor, or -errno. */
int finder_attach(struct finder *finder, const struct probe_unit *unit, const struct probe_place *place, int file);

/* Whether an answer is one to that question: its bounds, and the ends of its texts. */
bool finder_answer_fits(const struct finder_answer *answer, const struct finder_question *question, bool has_fd);

#endif
