//! Finds the installed DPDK by pkg-config, generates the bindings and compiles the shim.
//!
//! The bindings are generated from the installed headers and never checked in: the layout of
//! `rte_mbuf` and `rte_eth_conf` differs between releases, and a mismatch corrupts memory.

use std::path::PathBuf;
use std::{env, process};

/// The libraries whose symbols are used. pkg-config lists all fifty; drivers load by themselves
/// from the versioned plug-in folder. `rte_net_ring` is a driver, hence not in pkg-config's list,
/// and needed at link time for `rte_eth_from_rings`.
const LIBRARIES: [&str; 6] =
    ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal", "rte_net_ring"];

const FUNCTIONS: [&str; 37] = [
    "rte_eal_init",
    "rte_eal_cleanup",
    "rte_version_year",
    "rte_version_month",
    "rte_version",
    "rte_strerror",
    "rte_openlog_stream",
    "rte_log_set_global_level",
    "rte_get_tsc_hz",
    "rte_thread_register",
    "rte_thread_unregister",
    "rte_eth_dev_count_avail",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_info_get",
    "rte_eth_dev_configure",
    "rte_eth_rx_queue_setup",
    "rte_eth_tx_queue_setup",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_dev_close",
    "rte_eth_dev_socket_id",
    "rte_eth_macaddr_get",
    "rte_eth_stats_get",
    "rte_eth_stats_reset",
    "rte_eth_promiscuous_enable",
    "rte_eth_promiscuous_disable",
    "rte_eth_allmulticast_enable",
    "rte_eth_allmulticast_disable",
    "rte_eth_from_rings",
    "rte_ring_create",
    "rte_ring_free",
    "rte_mempool_avail_count",
    "rte_mempool_in_use_count",
    "rte_eth_dev_get_name_by_port",
    "rte_eth_dev_is_valid_port",
    "rte_lcore_count",
    "mr_.*",
];

fn main() {
    println!("cargo:rerun-if-changed=wrapper.h");
    println!("cargo:rerun-if-changed=shim.h");
    println!("cargo:rerun-if-changed=shim.c");

    let library = match pkg_config::Config::new()
        .atleast_version("22.11")
        .cargo_metadata(false)
        .probe("libdpdk")
    {
        Ok(library) => library,
        Err(error) => {
            eprintln!("{error}\n");
            eprintln!("DPDK 22.11 or later was not found by pkg-config.");
            eprintln!("  try: apt-get install libdpdk-dev libclang-dev");
            eprintln!("       or build without the DPDK device: cargo build --no-default-features");
            process::exit(1);
        }
    };
    for path in &library.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    // The shim is an archive that refers to the shared libraries, so it comes first.
    let flags = compile_shim();
    for name in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
    generate(&flags);
}

/// The compiler flags as pkg-config prints them: the crate `pkg-config` drops `-include` and
/// `-march`, without which the inline functions do not compile.
fn flags() -> Vec<String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let output = process::Command::new(program)
        .args(["--cflags", "libdpdk"])
        .output()
        .expect("pkg-config ran a moment ago");
    assert!(output.status.success(), "pkg-config --cflags libdpdk failed");
    String::from_utf8(output.stdout)
        .expect("pkg-config prints text")
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

fn compile_shim() -> Vec<String> {
    let flags = flags();
    let mut build = cc::Build::new();
    build.file("shim.c").opt_level(2).warnings(true);
    for flag in &flags {
        build.flag(flag);
    }
    // Headers of others, not ours to repair.
    build.flag_if_supported("-Wno-unused-parameter").flag_if_supported("-Wno-deprecated");
    build.compile("millrace_dpdk_shim");
    flags
}

fn generate(flags: &[String]) {
    let mut builder = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(flags)
        .use_core()
        .generate_comments(false)
        .layout_tests(true)
        .derive_default(false)
        .prepend_enum_name(false)
        .allowlist_recursively(true)
        .allowlist_type("rte_eth_(conf|dev_info|stats|rxconf|txconf)")
        .allowlist_type("rte_mbuf")
        .allowlist_type("mr_.*")
        .allowlist_var("MR_.*")
        // Only pointers to them cross the boundary; `dpdk` looks into mbufs by `MR_MBUF_AT_*`.
        .opaque_type("rte_(device|driver|eth_dev|mbuf|mempool.*|ring|ring_.*|memzone|bus)");
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    let bindings = builder.generate().unwrap_or_else(|error| {
        eprintln!("bindgen: {error}");
        eprintln!("  try: apt-get install libdpdk-dev libclang-dev");
        process::exit(1);
    });
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings.write_to_file(out.join("bindings.rs")).expect("OUT_DIR is writable");
}
