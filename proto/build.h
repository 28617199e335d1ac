/*
 * build: what this program was built from, for --version and for who reports a bug.
 */
#ifndef RINGTAIL_PROTO_BUILD_H
#define RINGTAIL_PROTO_BUILD_H

#include <stdio.h>

/*
 * Prints a line each: "PROGRAM VERSION" (what scripts read), the revision of the source ("unknown" outside
 * of git and of `git archive`, with "+changes" where files were changed), the wire's version, the compiler.
 */
void build_print(FILE *to, const char *program);

#endif
