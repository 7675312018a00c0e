/* DPDK's hot functions are inline, so no symbol exists for them. Each of these forwards to one of
 * them and decides nothing; burst-shaped, because the cost of the call is paid per burst. */
#ifndef MILLRACE_DPDK_SHIM_H
#define MILLRACE_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

/* Layout of rte_mbuf as the C compiler sees it, to check the bindings against. */
struct mr_layout {
	size_t mbuf_size;
	size_t buf_addr;
	size_t data_off;
	size_t refcnt;
	size_t nb_segs;
	size_t ol_flags;
	size_t pkt_len;
	size_t data_len;
	size_t vlan_tci;
	size_t rss;
	size_t buf_len;
	size_t next;
	size_t tx_offload;
	size_t eth_conf_size;
	size_t dev_info_size;
	size_t stats_size;
};

struct mr_link {
	uint32_t speed_mbps;
	uint8_t up;
	uint8_t full_duplex;
};

typedef ssize_t (*mr_log_write)(void *cookie, const char *text, size_t len);

void mr_layout(struct mr_layout *out);
int mr_errno(void);
uint64_t mr_tsc(void);
FILE *mr_log_stream(mr_log_write write);
int mr_link(uint16_t port, struct mr_link *out);

uint16_t mr_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count);
uint16_t mr_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count);
uint16_t mr_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count);

/*
 * rte_pktmbuf_pool_create_by_ops() with the flags of rte_mempool_create_empty(), which it leaves out.
 */
struct rte_mempool *mr_pool_create(const char *name, unsigned int count, unsigned int cache,
				   uint16_t data_room, int socket, const char *ops,
				   unsigned int flags);
int mr_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **out, unsigned int count);
void mr_free_bulk(struct rte_mbuf **frames, unsigned int count);
void mr_free(struct rte_mbuf *frame);
void mr_free_segment(struct rte_mbuf *segment);
void mr_attach(struct rte_mbuf *indirect, struct rte_mbuf *of);

unsigned int mr_ring_take(struct rte_ring *ring, void **out, unsigned int count);

#endif
