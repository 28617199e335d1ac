#include "daemon/source/bpf_refused.h"

#include <bpf/bpf.h>

#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/source/bpf_objects.h"
#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

static uint64_t untold(const struct source_bpf_objects *objects, const struct source_bpf_refused *refused)
{
	uint64_t told = __atomic_load_n(&objects->shared->refused_told[refused->slot], __ATOMIC_ACQUIRE);

	return refused->count > told ? refused->count - told : 0;
}

uint64_t source_bpf_refused_tell(struct source_bpf_objects *objects, struct source_store *store,
				 const struct source_bpf_refused *refused, unsigned *turns)
{
	uint64_t arguments[4] = {untold(objects, refused), refused->slot, refused->first, refused->last};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof(arguments));
	struct error error;
	int program;

	if (!arguments[0])
		return 0;
	program = source_bpf_objects_program(objects, PROGRAM_REFUSED, store, &error);
	while (program >= 0 && arguments[0] && *turns) {
		uint64_t before = arguments[0];

		(*turns)--;
		if (bpf_prog_test_run_opts(program, &options) != 0)
			break;
		arguments[0] = untold(objects, refused);
		if (arguments[0] == before)
			break;		/* the reader has first to make room */
	}
	return arguments[0];
}
