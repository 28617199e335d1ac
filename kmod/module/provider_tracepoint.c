// SPDX-License-Identifier: GPL-2.0-only
/*
 * provider_tracepoint: see provider_tracepoint.h. A small typed producer for each: the generic way,
 * by the tracepoint's format, is the BPF source's.
 */
#include "provider_tracepoint.h"

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/blk_types.h>
#include <linux/interrupt.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/timer.h>
#include <trace/events/block.h>
#include <trace/events/irq.h>
#include <trace/events/kmem.h>
#include <trace/events/napi.h>
#include <trace/events/net.h>
#include <trace/events/signal.h>
#include <trace/events/timer.h>

#include "consumer.h"
#include "emit.h"

/* An event of nothing but a few words. */
#define emit_words(data, probe, ...) do {						\
	const u64 word[] = {__VA_ARGS__};						\
	struct rt_emit emit;								\
											\
	if (!rt_emit_begin(&emit, data, probe, ARRAY_SIZE(word), NULL))			\
		break;									\
	memcpy(emit.payload, word, sizeof(word));					\
	rt_emit_end(&emit);								\
} while (0)

static void probe_irq_entry(void *data, int irq, struct irqaction *action)
{
	struct rt_attach_extra extra = {
		.texts = 1,
		.text[0] = {.kernel = action->name ?: "", .arg = 1},
	};
	struct rt_emit emit;

	if (!rt_emit_begin(&emit, data, RT_PROBE_IRQ_ENTRY, 2, &extra))
		return;
	emit.payload[0] = (s64)irq;
	emit.payload[1] = 0;
	rt_emit_end(&emit);
}

static void probe_irq_exit(void *data, int irq, struct irqaction *action, int ret)
{
	emit_words(data, RT_PROBE_IRQ_EXIT, (s64)irq, (s64)ret);
}

static void probe_softirq_entry(void *data, unsigned int vector)
{
	emit_words(data, RT_PROBE_SOFTIRQ_ENTRY, vector);
}

static void probe_softirq_exit(void *data, unsigned int vector)
{
	emit_words(data, RT_PROBE_SOFTIRQ_EXIT, vector);
}

#ifdef RT_TIMER_START_TAKES_BUCKET
static void probe_timer_start(void *data, struct timer_list *timer, unsigned long bucket_expiry)
#else
static void probe_timer_start(void *data, struct timer_list *timer, unsigned long expires,
			      unsigned int flags)
#endif
{
	emit_words(data, RT_PROBE_TIMER_START, (u64)timer, (u64)timer->function, timer->expires,
		   timer->expires - jiffies);
}

static void probe_timer_expire(void *data, struct timer_list *timer, unsigned long base_clock)
{
	emit_words(data, RT_PROBE_TIMER_EXPIRE, (u64)timer, (u64)timer->function,
		   jiffies - base_clock);
}

static void probe_page_alloc(void *data, struct page *page, unsigned int order, gfp_t gfp,
			     int migratetype)
{
	emit_words(data, RT_PROBE_PAGE_ALLOC, page ? page_to_pfn(page) : ~0ULL, order,
		   (__force u64)gfp, (s64)migratetype);
}

static void probe_page_free(void *data, struct page *page, unsigned int order)
{
	emit_words(data, RT_PROBE_PAGE_FREE, page_to_pfn(page), order);
}

static u64 device_of(const struct request *request)
{
	return request->q && request->q->disk ? disk_devt(request->q->disk) : 0;
}

static void probe_block_issue(void *data, struct request *request)
{
	emit_words(data, RT_PROBE_BLOCK_ISSUE, device_of(request), blk_rq_pos(request),
		   blk_rq_bytes(request), (__force u64)request->cmd_flags);
}

static void probe_block_complete(void *data, struct request *request, blk_status_t error,
				 unsigned int bytes)
{
	emit_words(data, RT_PROBE_BLOCK_COMPLETE, device_of(request), blk_rq_pos(request), bytes,
		   (__force u64)request->cmd_flags, (s64)blk_status_to_errno(error));
}

static void probe_net_xmit(void *data, struct sk_buff *skb, int rc, struct net_device *device,
			   unsigned int bytes)
{
	emit_words(data, RT_PROBE_NET_XMIT, device->ifindex, bytes, (s64)rc);
}

static void probe_net_receive(void *data, struct sk_buff *skb)
{
	emit_words(data, RT_PROBE_NET_RECEIVE, skb->dev ? skb->dev->ifindex : 0, skb->len,
		   be16_to_cpu(skb->protocol));
}

static void probe_napi_poll(void *data, struct napi_struct *napi, int work, int budget)
{
	emit_words(data, RT_PROBE_NAPI_POLL, napi->dev ? napi->dev->ifindex : 0, (s64)work,
		   (s64)budget);
}

static void probe_signal_deliver(void *data, int signal, struct kernel_siginfo *info,
				 struct k_sigaction *action)
{
	s64 code = info == SEND_SIG_NOINFO ? SI_USER : info == SEND_SIG_PRIV ? SI_KERNEL :
		   info->si_code;

	emit_words(data, RT_PROBE_SIGNAL_DELIVER, (s64)signal, code, (u64)action->sa.sa_handler,
		   action->sa.sa_flags);
}

#define ONE(probe) {{probe, (probe) + 1}}

struct rt_hook rt_tracepoint_hooks[] = {
	{"irq_handler_entry", probe_irq_entry, ONE(RT_PROBE_IRQ_ENTRY)},
	{"irq_handler_exit", probe_irq_exit, ONE(RT_PROBE_IRQ_EXIT)},
	{"softirq_entry", probe_softirq_entry, ONE(RT_PROBE_SOFTIRQ_ENTRY)},
	{"softirq_exit", probe_softirq_exit, ONE(RT_PROBE_SOFTIRQ_EXIT)},
	{"timer_start", probe_timer_start, ONE(RT_PROBE_TIMER_START)},
	{"timer_expire_entry", probe_timer_expire, ONE(RT_PROBE_TIMER_EXPIRE)},
	{"mm_page_alloc", probe_page_alloc, ONE(RT_PROBE_PAGE_ALLOC)},
	{"mm_page_free", probe_page_free, ONE(RT_PROBE_PAGE_FREE)},
	{"block_rq_issue", probe_block_issue, ONE(RT_PROBE_BLOCK_ISSUE)},
	{"block_rq_complete", probe_block_complete, ONE(RT_PROBE_BLOCK_COMPLETE)},
	{"net_dev_xmit", probe_net_xmit, ONE(RT_PROBE_NET_XMIT)},
	{"netif_receive_skb", probe_net_receive, ONE(RT_PROBE_NET_RECEIVE)},
	{"napi_poll", probe_napi_poll, ONE(RT_PROBE_NAPI_POLL)},
	{"signal_deliver", probe_signal_deliver, ONE(RT_PROBE_SIGNAL_DELIVER)},
};

const u32 rt_tracepoint_hooks_count = ARRAY_SIZE(rt_tracepoint_hooks);

void rt_tracepoint_check_types(void)
{
	check_trace_callback_type_irq_handler_entry(probe_irq_entry);
	check_trace_callback_type_irq_handler_exit(probe_irq_exit);
	check_trace_callback_type_softirq_entry(probe_softirq_entry);
	check_trace_callback_type_softirq_exit(probe_softirq_exit);
	check_trace_callback_type_timer_start(probe_timer_start);
	check_trace_callback_type_timer_expire_entry(probe_timer_expire);
	check_trace_callback_type_mm_page_alloc(probe_page_alloc);
	check_trace_callback_type_mm_page_free(probe_page_free);
	check_trace_callback_type_block_rq_issue(probe_block_issue);
	check_trace_callback_type_block_rq_complete(probe_block_complete);
	check_trace_callback_type_net_dev_xmit(probe_net_xmit);
	check_trace_callback_type_netif_receive_skb(probe_net_receive);
	check_trace_callback_type_napi_poll(probe_napi_poll);
	check_trace_callback_type_signal_deliver(probe_signal_deliver);
}
