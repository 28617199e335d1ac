/* history: what befalls the daemon, all from the seed, and the end at which all must be well. */
#ifndef RINGTAIL_TESTS_SIM_HISTORY_H
#define RINGTAIL_TESTS_SIM_HISTORY_H

/* Returns if every promise was kept; sim_fail() ends it otherwise. */
void history_run(void);

#endif
