#include "daemon/source/bpf_refused.h"

#include <bpf/bpf.h>

#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/source/bpf_objects.h"
#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

static uint64_t told(const struct source_bpf_objects *objects)
{
	return __atomic_load_n(&objects->shared->refused_told, __ATOMIC_ACQUIRE);
}

uint64_t source_bpf_refused_untold(const struct source_bpf_objects *objects, uint64_t refused)
{
	uint64_t already = told(objects);

	return refused > already ? refused - already : 0;
}

void source_bpf_refused_tell(struct source_bpf_objects *objects, struct source_store *store, uint64_t refused)
{
	uint64_t arguments[2] = {0, 0};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof(arguments));
	struct error error;
	int program;

	if (!source_bpf_refused_untold(objects, refused))
		return;
	program = source_bpf_objects_program(objects, PROGRAM_REFUSED, store, &error);
	for (unsigned i = 0; i < REFUSED_TURNS_MAX && program >= 0; i++) {
		arguments[0] = source_bpf_refused_untold(objects, refused);
		if (!arguments[0] || bpf_prog_test_run_opts(program, &options) != 0)
			break;
	}
}
