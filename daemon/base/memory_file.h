/*
 * memory_file: files in memory that another process receives, or that outlive the daemon.
 */
#ifndef RINGTAIL_DAEMON_BASE_MEMORY_FILE_H
#define RINGTAIL_DAEMON_BASE_MEMORY_FILE_H

#include <stdbool.h>

/*
 * A descriptor, close-on-exec, or -errno. Nobody can run the file or make it executable, since Linux
 * 6.3. `sealable`: the caller adds seals of its own.
 */
int memory_file_create(const char *name, bool sealable);

#endif
