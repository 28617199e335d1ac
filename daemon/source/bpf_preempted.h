/*
 * source_bpf_preempted: kernels whose tracepoints run programs with preemption enabled.
 *
 * Since Linux 7.0, a thread may be preempted in the middle of a program that is attached to a tracepoint itself
 * (tp_btf, raw_tp). If another thread of that CPU then comes to the same tracepoint, the kernel refuses to run the
 * program for it. For a program of the type TRACEPOINT, which is attached through perf, preemption is off as before. So
 * the programs of system calls go through perf there, if they may.
 *
 * In: the kernel's version, tracefs and sysctls, once, while they can be opened. Out: the numbers of tracepoints. The
 * loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_PREEMPTED_H
#define RINGTAIL_DAEMON_SOURCE_BPF_PREEMPTED_H

#include <stdint.h>

struct source_bpf_images;
struct source_bpf_objects;

/*
 * Decides which programs go through perf: their tracepoint[] becomes a number. Where they ought to and may not, the
 * log says so.
 */
void source_bpf_preempted_choose(struct source_bpf_objects *objects);

/* Changes the images of these programs. */
void source_bpf_preempted_change(const struct source_bpf_objects *objects, struct source_bpf_images *images);

/* Attaches a program of the type TRACEPOINT on every CPU: its link, or -1 with errno. */
int source_bpf_perf_attach(uint32_t tracepoint, int program);

#endif
