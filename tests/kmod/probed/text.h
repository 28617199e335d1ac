/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PROBED_TEXT_H
#define PROBED_TEXT_H

#include <linux/types.h>

/* Passes probed:text. */
void probed_pass_text(u32 turn);

#endif
