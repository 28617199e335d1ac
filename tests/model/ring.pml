/*
 * ring: reserve, commit, nest, preempt and drain of one ring, RT_POLICY_DROP, with records of one
 * cell each. tests/model/run.sh checks it; docs/ring-abi.md has the argument in words.
 *
 * Writers are processes, so any of them may stop at any step while any other goes on: an interrupt
 * that nests (the others finish first) and a preempted writer (they do not) are both among the
 * interleavings. Spin keeps memory in order; where the code needs a barrier, a mutation below
 * exchanges the two steps and must be found out.
 *
 * Two readers: one looks again and again (POLL), for records and losses, and one sleeps on the bell.
 * They are checked apart, since together they multiply states and add no case.
 *
 * Ghosts, known to nobody in the ring: what was really lost when a place was reserved, and how many
 * records were committed.
 */
#ifndef CELLS
#define CELLS		2
#endif
#ifndef WRITERS
#define WRITERS		2
#endif
#ifndef ATTEMPTS
#define ATTEMPTS	3	/* of each writer */
#endif
#ifndef TRIES
#define TRIES		2	/* RT_RESERVE_TRIES */
#endif
#define POSITIONS	(WRITERS * ATTEMPTS)
#define NEVER		255	/* RT_BELL_NEVER */

#ifdef MUTATE_TAG_WITHOUT_POSITION
#define TAG(pos)	1
#else
#define TAG(pos)	((pos) + 1)
#endif

byte commit[CELLS];		/* 0, or a tag */
byte payload[CELLS];		/* what the writer of a place puts there: its position + 1 */
byte lost_before[CELLS];	/* the record's `lost` */

byte producer_pos, lost_total, consumer_pos_seen;
byte consumer_pos, bell_at = NEVER, bell_answered;
bool bell;			/* the eventfd */

byte writers_done;
byte committed;			/* ghost */
byte really_lost[POSITIONS];	/* ghost: lost_total when the place was reserved */

/*
 * One step is one access to what others see; what is done with it locally goes along. Variables are
 * put back to 0 where they are of no use any more, so that states which only differ in them are one.
 */
proctype writer()
{
	byte attempt, try, pos, lost, at;

	do
	:: attempt < ATTEMPTS ->
		attempt++;
again:
		pos = producer_pos;
		lost = lost_total;
		if
		:: pos + 1 - consumer_pos_seen > CELLS ->
			at = consumer_pos;
			consumer_pos_seen = at;
			if
			:: pos + 1 - at > CELLS ->
				lost_total++;
				goto next
			:: else -> at = 0
			fi
		:: else
		fi;
#ifdef MUTATE_RESERVE_WITHOUT_COMPARE
		d_step { producer_pos = pos + 1; really_lost[pos] = lost_total };
#else
		atomic {
			if
			:: producer_pos == pos ->
				producer_pos = pos + 1;
				really_lost[pos] = lost_total
			:: else ->
				try++;
				if
				:: try < TRIES -> goto again
				:: else -> lost_total++; goto next
				fi
			fi
		};
#endif
#ifdef MUTATE_COMMIT_FIRST
		commit[pos % CELLS] = TAG(pos);
#endif
		d_step {
			payload[pos % CELLS] = pos + 1;
			lost_before[pos % CELLS] = lost;
			lost = 0
		};
		d_step {
			commit[pos % CELLS] = TAG(pos);
			committed++
		};
#ifndef POLL
		at = bell_at;
		if
		:: pos + 1 >= at && bell_answered != at ->
			bell_answered = at;
			bell = true
		:: else
		fi;
#endif
next:
		atomic { pos = 0; lost = 0; at = 0; try = 0 }
	:: else -> break
	od;
	writers_done++
}

proctype reader()
{
	byte pos, records, lost_seen, lost;
	bool reserved;

read:
	if
	:: commit[pos % CELLS] == TAG(pos) ->
#ifdef MUTATE_RELEASE_FIRST
		consumer_pos = pos + 1;
#endif
		d_step {
			/* Committed, this position's and not a lap's before, and whole. */
			assert(pos < producer_pos);
			assert(payload[pos % CELLS] == pos + 1);
			if
			:: lost_before[pos % CELLS] > lost_seen ->
				lost_seen = lost_before[pos % CELLS]
			:: else		/* an older count is no gap */
			fi;
			/* No loss stands before a record that was reserved before it. */
			assert(lost_seen <= really_lost[pos]);
			pos++;
			records++
		};
		if
		:: consumer_pos = pos
		:: skip			/* release it later */
		fi;
		goto read
	:: else
	fi;

	/* Empty: what was lost since stands here, if nothing is reserved. */
#ifdef MUTATE_TRAILING_ORDER
	reserved = (producer_pos != pos);
	lost = lost_total;
#else
	lost = lost_total;
	reserved = (producer_pos != pos);
#endif
	d_step {
		if
		:: !reserved && lost > lost_seen -> lost_seen = lost
		:: else
		fi;
		lost = 0;
		reserved = false
	};
	if
	:: consumer_pos != pos -> consumer_pos = pos
	:: else
	fi;

#ifdef POLL
	if
	:: commit[pos % CELLS] == TAG(pos) -> goto read
	:: lost_total > lost_seen -> goto read
	:: writers_done == WRITERS
	fi;
	if
	:: producer_pos != pos -> goto read
	:: else
	fi;
#else
	/* Arm, and look again. */
#ifdef MUTATE_ARM_WITHOUT_LOOK
	reserved = (producer_pos != pos);
	bell_at = pos + 1;
#else
	bell_at = pos + 1;
	reserved = (producer_pos != pos);
#endif
	if
	:: reserved -> reserved = false; goto read
	:: else
	fi;
	if
	:: bell -> bell = false; goto read
	:: writers_done == WRITERS && !bell
	fi;
#endif

	/* Nobody rings any more: then there is nothing to ring for, and the ledger closes. */
	assert(producer_pos == pos);
	if
	:: lost_total > lost_seen -> lost_seen = lost_total
	:: else
	fi;
	assert(records == committed);
	assert(records + lost_seen == WRITERS * ATTEMPTS)
}

init {
	byte i;

	atomic {
		run reader();
		do
		:: i < WRITERS -> run writer(); i++
		:: else -> break
		od
	}
}
