/*
 * limits: every bound of the programs that know Kafka. Those of the wire are in proto/limits.h.
 */
#ifndef RINGTAIL_COURIER_LIMITS_H
#define RINGTAIL_COURIER_LIMITS_H

#define WINDOW_BYTES_DEFAULT	(32u << 20)	/* of frames that Kafka has not confirmed */
#define WINDOW_BYTES_MIN	(4u << 20)	/* a few frames of 1 MiB */
#define WINDOW_BYTES_MAX	(1u << 30)
#define WINDOW_RECORD_BYTES	512u		/* of the same: what a record costs beside its bytes, at least */
#define WINDOW_BYTES_RELAY	(160u << 20)	/* of a relay's hosts: a bit more than it may have on its way */
#define LANES_MAX		16384u		/* hosts of a relay */
#define LANES_TOLD_MAX		1024u		/* in one message to the relay */
#define RELAY_FRAMES_MAX	256u		/* taken of a relay in one turn */
#define REDIAL_DELAY_MS_MIN	250u		/* before the next attempt to connect to a relay */
#define REDIAL_DELAY_MS_MAX	5000u
#define RECORD_BYTES_MAX	(2u << 20)	/* a frame of 1 MiB, a hello and headers fit */
#define RECORD_OVERHEAD_BYTES	1024u		/* of a record's key and headers, and of the batch it is in */
#define CHECKPOINTS_MAX		64u		/* places that may be acknowledged later */
#define CHECKPOINT_INTERVAL_MS	500u		/* between two of them */
#define LINGER_MS		100u		/* how long a record waits for others of its batch */
#define REACH_TIMEOUT_MS	5000		/* the brokers, at the start */
#define DRAIN_TIMEOUT_MS	10000u		/* at the end, for what is on its way */
#define RENEW_DELAY_MS_MIN	500u		/* before a producer takes a failed one's place */
#define RENEW_DELAY_MS_MAX	30000u
#define PURGE_TIMEOUT_MS	5000		/* of a failed producer's reports */
#define HOST_BYTES_MAX		256u
#define PREFIX_BYTES_MAX	200u		/* Kafka's own bound of a topic's name is 249 */
#define RUN_TEXT_BYTES		64u		/* BOOTID/EPOCH */
#define SECRET_BYTES_MAX	(64u << 10)	/* of a password or a key */
#define HOSTS_READ_MAX		65536u		/* at once */
#define HOSTS_NAMED_BYTES	256u		/* of those that a message is about */
#define RUNS_MAX		262144u		/* that one reader knows, of all hosts */
#define RUNS_BYTES_MAX		(256u << 20)	/* of these, with each catalog once */
#define RUNS_JUDGED_MAX		2097152u	/* of which one look tells whether frames name them */
#define RUN_AGE_MS_MIN		(24u * 3600000u)	/* of a run's last record, before it may be deleted */
#define DELETE_TIMEOUT_MS	60000u		/* of a tombstone */
#define PATIENCE_MS_DEFAULT	60000u		/* of a reader with a partition of which nothing comes */
#define ANNOUNCE_INTERVAL_MS	(6u * 3600000u)	/* before the beginning of a run that goes on is sent again */
#define RUN_WAIT_MS		5000u		/* until a run's beginning comes, after a frame of it */
#define RUNS_KEPT_MAX		16u		/* of one host: whose numbers a reader remembers */
#define PARTITIONS_MAX		10000u

#endif
