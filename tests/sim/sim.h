/*
 * sim: a daemon in a world that is made up from one seed.
 *
 *	history ──► producers ──► rings ──► │ worker, drain, batcher, fanout,  │ ──► network ──► clients
 *	                                    │ stream, session, server, control │                  │
 *	  oracle ◄── what was written       └── the daemon's own code ─────────┘   what came  ──► oracle
 *
 * What is replaced when it is linked: the clocks and randomness (sim_clock.c), threads
 * (sim_task.c), libevent (sim_event.c), descriptors (sim_net.c), memory (sim_alloc.c), the disk
 * (sim_disk.c), the loader and its source (sim_source.c).
 * Everything runs in one thread. Time stands still while code runs and moves when all wait, and a
 * little after each callback. Whatever could come in another order comes in the seed's.
 */
#ifndef RINGTAIL_TESTS_SIM_H
#define RINGTAIL_TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_US 1000ull
#define SIM_MS 1000000ull
#define SIM_S 1000000000ull

struct event_base;

#define SIM_ALLOCATIONS_MAX	(1u << 20)	/* in one history, whose places are told apart */

/* The daemon's allocations in a history. A place is a stack of callers. */
struct sim_allocations {
	uint64_t count;
	uint32_t there[SIM_ALLOCATIONS_MAX];	/* how many at its place, with it; [n] is the n-th, from 1 */
};

/* Memory that runs out; see sim_alloc.c. */
struct sim_shortage {
	struct sim_allocations *told;	/* where to note them; NULL: nowhere */
	bool armed;			/* the daemon is up */
	uint64_t at, length;		/* allocations at .. at + length - 1 fail; at 0: none */
	uint64_t count;
	bool struck;
};

struct sim {
	uint64_t seed;
	uint64_t now_ns;		/* CLOCK_MONOTONIC */
	int64_t wall_ns;		/* CLOCK_REALTIME less that */
	FILE *log;
	bool steps;			/* log every callback too */
	uint64_t step;
	struct sim_shortage shortage;
	bool brief;			/* a short history, without restarts */
	bool durable;			/* the daemon keeps what it has on disk */
	bool jumped;			/* the wall clock has: times of before are not what they were */
	bool gave_up;			/* disk or clock gave it a reason to delete what is kept */
	bool manager;			/* the service manager keeps the rings from one run to the next */
	bool operators;			/* who comes is an operator */
	bool rich;			/* threads have texts, events have strings, and some clients want them */
	const char *expect;		/* text that the log must have, or the history missed its point */
	bool met;
};

extern struct sim sim;

/* ---- Chance, and what is said of it: sim_clock.c --------------------------------------------- */

uint64_t sim_random(void);
uint64_t sim_below(uint64_t n);			/* 0 .. n - 1 */
uint64_t sim_between(uint64_t low, uint64_t high);	/* both may come */
bool sim_chance(unsigned percent);

__attribute__((format(printf, 1, 2)))
void sim_log(const char *format, ...);

/* A promise is broken: says which, and ends the process. */
__attribute__((format(printf, 1, 2), noreturn))
void sim_fail(const char *format, ...);

/* ---- Memory: sim_alloc.c --------------------------------------------------------------------- */

/* The world's own: never NULL. */
void *sim_calloc(size_t bytes);
void *sim_realloc(void *old, size_t bytes);

/* ---- Time: sim_task.c ------------------------------------------------------------------------ */

typedef void sim_action(void *context);

/* Does it that much later, outside of every task. */
void sim_after(uint64_t ns, sim_action *action, void *context);

/* Goes on until then, or until *done. */
void sim_run(uint64_t until_ns, const bool *done);

/* ---- Tasks: what would be threads: sim_task.c ------------------------------------------------ */

struct sim_task;

struct sim_task *sim_task_start(const char *name, void *(*run)(void *), void *context);

/* All of them are gone where they stand, as by SIGKILL. */
void sim_tasks_kill(void);

bool sim_task_is_running(void);

/* Gives up the turn, until the base has something to do; or just to whoever wants it. */
void sim_task_wait(struct event_base *base);
void sim_task_yield(void);
void sim_task_sleep(uint64_t ns);

/* ---- The service manager: sim_manager.c ------------------------------------------------------- */

struct activation;
struct service_manager;

/* NULL: this history has none. */
struct service_manager *sim_manager(void);

/* What it hands to the next run: copies of what it keeps. */
void sim_manager_hand_over(struct activation *activation);

/* Whether the newest list of what clients want did not get to it. */
bool sim_manager_refused(void);

/* ---- Disk: sim_disk.c ------------------------------------------------------------------------ */

struct disk;

void sim_disk(struct disk *disk);

/* Some operation fails soon, perhaps all after it: until it is told again, or the next cut. */
void sim_disk_fail(void);
bool sim_disk_has_failed(void);

/* It takes a part of each write, for ever: what is to be written takes many times as long. */
bool sim_disk_is_slow(void);

/* When it was last asked for something. */
uint64_t sim_disk_used_ns(void);

/* The daemon has died, and the power was cut or not. */
void sim_disk_cut(bool power);

/* Whatever segments are there, each by its own words. */
void sim_disk_check(void);

/* ---- Loops: sim_event.c ---------------------------------------------------------------------- */

bool sim_base_ready(const struct event_base *base);
uint64_t sim_base_deadline(const struct event_base *base);	/* UINT64_MAX: none */

/* ---- Network: sim_net.c ---------------------------------------------------------------------- */

struct sim_conn;

/* What happens at the client's end. Both come from sim_after's side. */
struct sim_peer {
	void (*arrived)(void *context);		/* bytes wait; see sim_conn_read() */
	void (*ended)(void *context, bool reset);
	void *context;
};

struct sim_link {
	uint64_t latency_ns;			/* and up to as much again */
	size_t capacity;			/* bytes on their way or unread, each way */
};

/* A descriptor that is readable when somebody wants to connect; sim_accept() gives them, or -1. */
int sim_listen(void);
int sim_accept(void);

/* NULL: refused. The address of a connection is its number. */
struct sim_conn *sim_connect(const struct sim_link *link, const struct sim_peer *peer);
unsigned sim_conn_id(const struct sim_conn *conn);

/* Sends all of it: what the server does not read stays in the sender, without a bound. */
void sim_conn_write(struct sim_conn *conn, const void *bytes, size_t n);
size_t sim_conn_read(struct sim_conn *conn, void *bytes, size_t n);
size_t sim_conn_unread(const struct sim_conn *conn);

/* The client goes: with what it sent before, or with a reset. No call to the peer follows. */
void sim_conn_close(struct sim_conn *conn, bool reset);

/* Whether the server has closed its end: the client may not know yet. */
bool sim_conn_is_dropped(const struct sim_conn *conn);

/* The daemon's sockets are closed, as when it dies. */
void sim_net_kill(void);

/* Sockets that the daemon still has. */
unsigned sim_net_sockets(void);

/* For loops. */
bool sim_fd_readable(int fd);
bool sim_fd_writable(int fd);

#endif
