/* config_reload: see config_reload.h. What is not in the list takes a restart: so a new option does. */
#include "daemon/config/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config/option.h"
#include "daemon/config/value.h"

static const unsigned char takes_effect[OPTIONS] = {
	[OPTION_tls_cert] = 1, [OPTION_tls_key] = 1, [OPTION_tls_client_ca] = 1,
	[OPTION_tokens] = 1, [OPTION_viewer] = 1, [OPTION_operator] = 1,
	[OPTION_viewer_probe] = 1, [OPTION_viewer_strings] = 1, [OPTION_viewer_stacks] = 1,
	[OPTION_viewer_rate] = 1, [OPTION_viewer_subscriptions] = 1,
	[OPTION_probe] = 1, [OPTION_filter] = 1,
	[OPTION_batch_interval_ns] = 1, [OPTION_low_latency] = 1,
	[OPTION_history_bytes] = 1, [OPTION_history_age_ns] = 1,
	[OPTION_queue_bytes] = 1, [OPTION_memory_bytes] = 1, [OPTION_overflow] = 1,
	[OPTION_clients_max] = 1, [OPTION_identity_max] = 1, [OPTION_pending_max] = 1,
	[OPTION_tls_timeout_ns] = 1, [OPTION_hello_timeout_ns] = 1,
	[OPTION_silence_timeout_ns] = 1,
	[OPTION_metrics_probe] = 1, [OPTION_slow_call_ns] = 1, [OPTION_log_level] = 1,
};

/* As it would stand in a file; NULL: out of memory. */
static char *print(const struct config_option *option, const struct config *config)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	config_value_print(option, config, out);
	fclose(out);
	return text;
}

static bool differs(const struct config_option *option, const struct config *old,
		    const struct config *new)
{
	char *before = print(option, old), *after = print(option, new);
	bool differs = !before || !after || strcmp(before, after) != 0;

	free(before);
	free(after);
	return differs;
}

/* What depends on others, too. */
static bool is_in_force(int option, const struct config *old, const struct config *new)
{
	if (option == OPTION_tls_cert)		/* a listener has TLS, or it has not */
		return !old->tls_cert == !new->tls_cert;
	if (option == OPTION_slow_call_ns)	/* exporters keep what they began with */
		return !old->export.count;
	return takes_effect[option];
}

void config_reload_ignored(const struct config *old, const struct config *new, char *names,
			   size_t bytes)
{
	size_t used = 0;

	names[0] = '\0';
	for (int i = 0; i < OPTIONS; i++) {
		const struct config_option *option = &config_options[i];

		if (option->place != CONFIG_ANYWHERE || !differs(option, old, new) ||
		    is_in_force(i, old, new))
			continue;
		used += (size_t)snprintf(names + used, bytes - used, "%s%s", used ? ", " : "",
					 option->name);
		if (used >= bytes)
			return;
	}
}
