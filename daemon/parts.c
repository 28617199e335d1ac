#include "daemon/parts.h"

#include "daemon/base/log.h"

int parts_start(const struct part *part, size_t n, struct engine *engine, struct error *error)
{
	for (size_t i = 0; i < n; i++) {
		int err = part[i].start(engine, error);

		if (err) {
			log_debug("part-failed", "%s does not start", part[i].name);
			parts_stop(part, i + 1, engine);
			return err;
		}
	}
	return 0;
}

void parts_stop(const struct part *part, size_t n, struct engine *engine)
{
	while (n--)
		if (part[n].stop)
			part[n].stop(engine);
}
