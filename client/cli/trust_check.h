/*
 * trust_check: what we are to show a daemon and what it shows us, one check at a time: tokens, keys,
 * certificates.
 */
#ifndef RINGTAIL_CLIENT_CLI_TRUST_CHECK_H
#define RINGTAIL_CLIENT_CLI_TRUST_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "client/lib/conn_tls.h"
#include "client/cli/host_check.h"
#include "client/lib/trust.h"

struct trust_view {
	struct ringtail_trust trust;		/* files that are NULL are not looked at */
	const struct tls_span *daemon;	/* of its certificate; NULL: none was seen */
	int64_t now_s;				/* since 1970 */
};

/*
 * The i-th check's name, with its outcome in *check, of which `found` is empty where there is nothing to
 * look at; NULL past the last. CHECK_FAIL: a daemon that asks for it does not let us in, or we do not
 * believe it.
 */
const char *trust_check(const struct trust_view *view, size_t i, struct host_check *check);

#endif
