#include "daemon/base/loop.h"

#include "daemon/base/limits.h"

struct event_base *loop_create(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base;

	if (!config)
		return NULL;
	event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
	event_config_set_max_dispatch_interval(config, NULL, LOOP_CALLBACKS_MAX, 0);
	base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}
