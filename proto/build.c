#include "proto/build.h"

#include "proto/frame.h"
#include "proto/revision.h"

#ifndef __has_feature	/* clang's; gcc has macros */
#define __has_feature(name) 0
#endif

void build_print(FILE *to, const char *program)
{
	fprintf(to, "%s %s\n", program, RINGTAIL_VERSION);
	fprintf(to, "revision %s\n", RINGTAIL_REVISION);
	fprintf(to, "wire %d\n", FRAME_VERSION);
#ifdef __clang__
	fprintf(to, "compiler clang %s\n", __clang_version__);
#else
	fprintf(to, "compiler gcc %s\n", __VERSION__);
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
	fprintf(to, "sanitizer address\n");
#elif defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
	fprintf(to, "sanitizer thread\n");
#endif
}
