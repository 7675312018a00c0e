/* What bindgen reads. The macros built from RTE_BIT64 would come out with a width that follows
 * their value, or not at all; as typed constants they are all 64 bits wide. */
#include <stdint.h>
#include <stdio.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

#include "shim.h"

static const uint32_t MR_VERSION_YEAR = RTE_VER_YEAR;
static const uint32_t MR_VERSION_MONTH = RTE_VER_MONTH;

static const uint16_t MR_HEADROOM = RTE_PKTMBUF_HEADROOM;
static const uint32_t MR_MEMPOOL_NO_IOVA_CONTIG = RTE_MEMPOOL_F_NO_IOVA_CONTIG;
static const int32_t MR_SOCKET_ANY = SOCKET_ID_ANY;
static const uint32_t MR_MAX_LCORE = RTE_MAX_LCORE;
static const uint32_t MR_LOG_INFO = RTE_LOG_INFO;
static const uint32_t MR_MEMPOOL_CACHE_MAX = RTE_MEMPOOL_CACHE_MAX_SIZE;
static const uint32_t MR_RING_SP_ENQ = RING_F_SP_ENQ;
static const uint32_t MR_RING_SC_DEQ = RING_F_SC_DEQ;

static const uint64_t MR_RX_OFFLOAD_IPV4_CKSUM = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
static const uint64_t MR_RX_OFFLOAD_UDP_CKSUM = RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
static const uint64_t MR_RX_OFFLOAD_TCP_CKSUM = RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
static const uint64_t MR_RX_OFFLOAD_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t MR_RX_OFFLOAD_RSS_HASH = RTE_ETH_RX_OFFLOAD_RSS_HASH;

static const uint64_t MR_TX_OFFLOAD_IPV4_CKSUM = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
static const uint64_t MR_TX_OFFLOAD_UDP_CKSUM = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
static const uint64_t MR_TX_OFFLOAD_TCP_CKSUM = RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
static const uint64_t MR_TX_OFFLOAD_TCP_TSO = RTE_ETH_TX_OFFLOAD_TCP_TSO;
static const uint64_t MR_TX_OFFLOAD_MULTI_SEGS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;

static const uint64_t MR_RSS_IP = RTE_ETH_RSS_IP;
static const uint64_t MR_RSS_TCP = RTE_ETH_RSS_TCP;
static const uint64_t MR_RSS_UDP = RTE_ETH_RSS_UDP;
/* Functions that tell TCP flows of one family apart, at least by their addresses. */
static const uint64_t MR_RSS_TCP4 = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_TCP;
static const uint64_t MR_RSS_TCP6 = RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_NONFRAG_IPV6_TCP |
	RTE_ETH_RSS_IPV6_EX | RTE_ETH_RSS_IPV6_TCP_EX;

static const uint64_t MR_MBUF_RX_VLAN = RTE_MBUF_F_RX_VLAN;
static const uint64_t MR_MBUF_RX_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
static const uint64_t MR_MBUF_RX_RSS_HASH = RTE_MBUF_F_RX_RSS_HASH;
static const uint64_t MR_MBUF_RX_IP_CKSUM_MASK = RTE_MBUF_F_RX_IP_CKSUM_MASK;
static const uint64_t MR_MBUF_RX_IP_CKSUM_BAD = RTE_MBUF_F_RX_IP_CKSUM_BAD;
static const uint64_t MR_MBUF_RX_IP_CKSUM_GOOD = RTE_MBUF_F_RX_IP_CKSUM_GOOD;
static const uint64_t MR_MBUF_RX_L4_CKSUM_MASK = RTE_MBUF_F_RX_L4_CKSUM_MASK;
static const uint64_t MR_MBUF_RX_L4_CKSUM_BAD = RTE_MBUF_F_RX_L4_CKSUM_BAD;
static const uint64_t MR_MBUF_RX_L4_CKSUM_GOOD = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
static const uint64_t MR_MBUF_RX_L4_CKSUM_NONE = RTE_MBUF_F_RX_L4_CKSUM_NONE;

static const uint64_t MR_MBUF_TX_IP_CKSUM = RTE_MBUF_F_TX_IP_CKSUM;
static const uint64_t MR_MBUF_TX_IPV4 = RTE_MBUF_F_TX_IPV4;
static const uint64_t MR_MBUF_TX_IPV6 = RTE_MBUF_F_TX_IPV6;
static const uint64_t MR_MBUF_TX_TCP_CKSUM = RTE_MBUF_F_TX_TCP_CKSUM;
static const uint64_t MR_MBUF_TX_UDP_CKSUM = RTE_MBUF_F_TX_UDP_CKSUM;
static const uint64_t MR_MBUF_TX_TCP_SEG = RTE_MBUF_F_TX_TCP_SEG;

static const uint64_t MR_MBUF_INDIRECT = RTE_MBUF_F_INDIRECT;
static const uint64_t MR_MBUF_EXTERNAL = RTE_MBUF_F_EXTERNAL;

static const uint32_t MR_MBUF_L3_LEN_SHIFT = RTE_MBUF_L3_LEN_OFS;
static const uint32_t MR_MBUF_L4_LEN_SHIFT = RTE_MBUF_L4_LEN_OFS;
static const uint32_t MR_MBUF_TSO_SEGSZ_SHIFT = RTE_MBUF_TSO_SEGSZ_OFS;
static const uint32_t MR_MBUF_OUTL3_LEN_SHIFT = RTE_MBUF_OUTL3_LEN_OFS;

/* Where the fields are, also in releases that nest them in unnamed structs. */
#define MR_PLACE(name, field) \
	static const size_t MR_MBUF_AT_##name = offsetof(struct rte_mbuf, field)
MR_PLACE(BUF_ADDR, buf_addr);
MR_PLACE(DATA_OFF, data_off);
MR_PLACE(REFCNT, refcnt);
MR_PLACE(NB_SEGS, nb_segs);
MR_PLACE(OL_FLAGS, ol_flags);
MR_PLACE(PKT_LEN, pkt_len);
MR_PLACE(DATA_LEN, data_len);
MR_PLACE(VLAN_TCI, vlan_tci);
MR_PLACE(RSS, hash);
MR_PLACE(BUF_LEN, buf_len);
MR_PLACE(NEXT, next);
MR_PLACE(TX_OFFLOAD, tx_offload);
