#include "proto/build.h"

#include "proto/frame.h"
#include "proto/revision.h"

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
#ifdef __SANITIZE_ADDRESS__
	fprintf(to, "sanitizer address\n");
#elif defined(__SANITIZE_THREAD__)
	fprintf(to, "sanitizer thread\n");
#endif
}
