/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * selftest: holds the ring and the plan to their promises before anybody may open the device, in
 * builds with RINGTAIL_SELFTEST=y.
 */
#ifndef RT_SELFTEST_H
#define RT_SELFTEST_H

#ifdef RINGTAIL_SELFTEST
/* 0, or -EINVAL, with what failed in the log. */
int rt_selftest(void);
#else
static inline int rt_selftest(void)
{
	return 0;
}
#endif

#endif
