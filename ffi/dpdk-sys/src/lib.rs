//! Raw bindings to the installed DPDK, narrowed to what the crate `dpdk` uses, and the shim
//! (`shim.c`) that gives DPDK's inline functions a symbol. Declarations only, no logic; nobody but
//! `dpdk` imports it.
//!
//! DPDK 22.11 is tested. Constants that DPDK builds with `RTE_BIT64` are declared once, in
//! `wrapper.h`, as 64-bit `MR_*`; functions of the shim are called `mr_*`.

#![no_std]

mod bindings {
    #![allow(
        missing_docs,
        non_camel_case_types,
        non_snake_case,
        non_upper_case_globals,
        dead_code,
        unreachable_pub,
        unused_qualifications,
        unnecessary_transmutes,
        unsafe_op_in_unsafe_fn,
        clippy::all,
        clippy::pedantic,
        clippy::undocumented_unsafe_blocks
    )]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::{MaybeUninit, size_of};

    fn layout() -> mr_layout {
        let mut out = MaybeUninit::uninit();
        // SAFETY: the function fills the whole struct it is given a valid pointer to.
        unsafe {
            mr_layout(out.as_mut_ptr());
            out.assume_init()
        }
    }

    #[test]
    fn bindings_and_c_compiler_agree_on_the_layout() {
        let c = layout();
        assert_eq!(c.mbuf_size, size_of::<rte_mbuf>());
        assert_eq!(c.buf_addr, MR_MBUF_AT_BUF_ADDR);
        assert_eq!(c.data_off, MR_MBUF_AT_DATA_OFF);
        assert_eq!(c.refcnt, MR_MBUF_AT_REFCNT);
        assert_eq!(c.nb_segs, MR_MBUF_AT_NB_SEGS);
        assert_eq!(c.ol_flags, MR_MBUF_AT_OL_FLAGS);
        assert_eq!(c.pkt_len, MR_MBUF_AT_PKT_LEN);
        assert_eq!(c.data_len, MR_MBUF_AT_DATA_LEN);
        assert_eq!(c.vlan_tci, MR_MBUF_AT_VLAN_TCI);
        assert_eq!(c.rss, MR_MBUF_AT_RSS);
        assert_eq!(c.buf_len, MR_MBUF_AT_BUF_LEN);
        assert_eq!(c.next, MR_MBUF_AT_NEXT);
        assert_eq!(c.tx_offload, MR_MBUF_AT_TX_OFFLOAD);
        assert_eq!(c.eth_conf_size, size_of::<rte_eth_conf>());
        assert_eq!(c.dev_info_size, size_of::<rte_eth_dev_info>());
        assert_eq!(c.stats_size, size_of::<rte_eth_stats>());
    }

    #[test]
    fn library_and_headers_are_of_one_release() {
        // SAFETY: both functions only return a constant.
        let found = unsafe { (rte_version_year(), rte_version_month()) };
        assert_eq!(found, (MR_VERSION_YEAR, MR_VERSION_MONTH));
    }
}
