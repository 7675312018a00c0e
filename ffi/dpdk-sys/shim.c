#define _GNU_SOURCE
#include "shim.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>

void mr_layout(struct mr_layout *out)
{
	out->mbuf_size = sizeof(struct rte_mbuf);
	out->buf_addr = offsetof(struct rte_mbuf, buf_addr);
	out->data_off = offsetof(struct rte_mbuf, data_off);
	out->refcnt = offsetof(struct rte_mbuf, refcnt);
	out->nb_segs = offsetof(struct rte_mbuf, nb_segs);
	out->ol_flags = offsetof(struct rte_mbuf, ol_flags);
	out->pkt_len = offsetof(struct rte_mbuf, pkt_len);
	out->data_len = offsetof(struct rte_mbuf, data_len);
	out->vlan_tci = offsetof(struct rte_mbuf, vlan_tci);
	out->rss = offsetof(struct rte_mbuf, hash);
	out->buf_len = offsetof(struct rte_mbuf, buf_len);
	out->next = offsetof(struct rte_mbuf, next);
	out->tx_offload = offsetof(struct rte_mbuf, tx_offload);
	out->eth_conf_size = sizeof(struct rte_eth_conf);
	out->dev_info_size = sizeof(struct rte_eth_dev_info);
	out->stats_size = sizeof(struct rte_eth_stats);
}

int mr_errno(void)
{
	return rte_errno;
}

uint64_t mr_tsc(void)
{
	return rte_rdtsc();
}

FILE *mr_log_stream(mr_log_write write)
{
	cookie_io_functions_t functions = { .write = write };

	return fopencookie(NULL, "w", functions);
}

int mr_link(uint16_t port, struct mr_link *out)
{
	struct rte_eth_link link;
	int ret = rte_eth_link_get_nowait(port, &link);

	if (ret != 0)
		return ret;
	out->speed_mbps = link.link_speed;
	out->up = link.link_status == RTE_ETH_LINK_UP;
	out->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	return 0;
}

uint16_t mr_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, frames, count);
}

uint16_t mr_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count)
{
	return rte_eth_tx_prepare(port, queue, frames, count);
}

uint16_t mr_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, frames, count);
}

struct rte_mempool *mr_pool_create(const char *name, unsigned int count, unsigned int cache,
				   uint16_t data_room, int socket, const char *ops,
				   unsigned int flags)
{
	struct rte_pktmbuf_pool_private priv = { .mbuf_data_room_size = data_room };
	struct rte_mempool *pool = rte_mempool_create_empty(
		name, count, sizeof(struct rte_mbuf) + data_room, cache, sizeof(priv), socket, flags);
	int code;

	if (pool == NULL)
		return NULL;
	code = rte_mempool_set_ops_byname(pool, ops, NULL);
	if (code == 0) {
		rte_pktmbuf_pool_init(pool, &priv);
		code = rte_mempool_populate_default(pool);
	}
	if (code < 0) {
		rte_mempool_free(pool);
		rte_errno = -code;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

int mr_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **out, unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, out, count);
}

void mr_free_bulk(struct rte_mbuf **frames, unsigned int count)
{
	rte_pktmbuf_free_bulk(frames, count);
}

void mr_free(struct rte_mbuf *frame)
{
	rte_pktmbuf_free(frame);
}

void mr_free_segment(struct rte_mbuf *segment)
{
	rte_pktmbuf_free_seg(segment);
}

void mr_attach(struct rte_mbuf *indirect, struct rte_mbuf *of)
{
	rte_pktmbuf_attach(indirect, of);
}

unsigned int mr_ring_take(struct rte_ring *ring, void **out, unsigned int count)
{
	return rte_ring_dequeue_burst(ring, out, count, NULL);
}
