#include "courier/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "client/lib/failure.h"

static int add(struct watch *watch, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(watch->events, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int watch_open(struct watch *watch, const struct producer *producer, struct ringtail_error *error)
{
	sigset_t signals;
	int err = 0;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	watch->stopping = false;
	watch->events = epoll_create1(EPOLL_CLOEXEC);
	watch->signals = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	if (watch->events < 0 || watch->signals < 0)
		err = -errno;
	if (!err)
		err = add(watch, watch->signals);
	if (!err)
		err = add(watch, producer_fd(producer));
	return err ? failure_set(error, -err, "no-descriptor", "cannot wait for signals: %s", strerror(-err)) : 0;
}

void watch_close(struct watch *watch)
{
	if (watch->events >= 0)
		close(watch->events);
	if (watch->signals >= 0)
		close(watch->signals);
}

bool watch_take_signals(struct watch *watch)
{
	struct signalfd_siginfo info;
	bool asked = false;

	while (read(watch->signals, &info, sizeof(info)) == sizeof(info)) {
		asked |= info.ssi_signo == SIGUSR1;
		watch->stopping |= info.ssi_signo != SIGUSR1;
	}
	return asked;
}

void ledger_print(const struct windows *windows, const struct producer *producer, const struct ledger_facts *facts,
		  FILE *to)
{
	const struct window_ledger *ledger = &windows->ledger;
	uint64_t in_flight = windows_in_flight(windows);
	struct producer_stat stat;

	producer_stat(producer, &stat);
	fprintf(to, facts->json ?
		"{\"forwarded\":%" PRIu64 ",\"confirmed\":%" PRIu64 ",\"rejected\":%" PRIu64 ",\"returned\":%" PRIu64
		",\"in_flight\":%" PRIu64 ",\"residual\":%" PRId64 ",\"rejected_attempts\":%" PRIu64
		",\"resent\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"unacknowledged\":%" PRIu64
		",\"producers_failed\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"slowest_ms\":%" PRIu64
		",\"stalled_ms\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"hosts\":%" PRIu64 "}\n" :
		"%" PRIu64 " forwarded = %" PRIu64 " confirmed + %" PRIu64 " rejected + %" PRIu64 " returned + %" PRIu64
		" in flight; residual %" PRId64 "; attempts rejected: %" PRIu64 "; resent: %" PRIu64 "; bytes: %" PRIu64
		"; not acknowledged: %" PRIu64 "; producers that failed: %" PRIu64 "; errors: %" PRIu64
		"; slowest: %" PRIu64 " ms; longest stall: %" PRIu64 " ms; lost before: %" PRIu64 "; hosts: %" PRIu64 "\n",
		ledger->forwarded, ledger->confirmed, ledger->rejected, ledger->returned, in_flight,
		(int64_t)(ledger->forwarded - ledger->confirmed - ledger->rejected - ledger->returned - in_flight),
		ledger->rejected_attempts, ledger->resent, ledger->confirmed_bytes, facts->unacknowledged,
		stat.renewed, stat.errors, stat.slowest_ns / 1000000, stat.stalled_ns / 1000000, facts->lost,
		facts->hosts);
	fflush(to);
}
