// SPDX-License-Identifier: GPL-2.0-only
/* text: a probe in another file of the module, with texts that are there, too long, empty and none. */
#include "text.h"

#include <linux/string.h>

#include "ringtail_probe.h"

#define LENGTH_MAX 199

void probed_pass_text(u32 turn)
{
	char letters[LENGTH_MAX + 1];
	const char *shown = letters;
	u32 bytes = turn % (LENGTH_MAX + 2);

	if (bytes <= LENGTH_MAX) {
		memset(letters, 'a' + bytes % 26, bytes);
		letters[bytes] = 0;
	} else {
		shown = NULL;
	}
	RT_PROBE(probed, text, "%s of %u bytes\n", shown, bytes);
}
