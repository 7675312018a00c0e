# Shared by the scripts: packages, a namespace of our own, a running server. Sourced, not run.
# shellcheck shell=bash

PACKAGES=(build-essential pkg-config libdpdk-dev dpdk-dev libclang-dev iperf3 iproute2 iputils-ping ethtool nftables)

# Addresses inside of the namespace; nothing outside of it ever sees them.
export KERNEL_IP4=10.99.0.1 OUR_IP4=10.99.0.2
export KERNEL_IP6=fd99::1 OUR_IP6=fd99::2

say() { printf '\033[1m==> %s\033[0m\n' "$*" | if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }

die() {
    local code=$1
    shift
    printf 'millrace: %s\n' "$*" >&2
    exit "$code"
}

is_root() { [ "$(id -u)" = 0 ]; }

progress() { [ ! -t 2 ] || printf '\r\033[K    %s (%s s) ...' "$1" "$2" >&2; }
clear_progress() { [ ! -t 2 ] || printf '\r\033[K' >&2; }

missing_packages() {
    local p
    for p in "${PACKAGES[@]}"; do
        dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null | grep -q '^installed$' || echo "$p"
    done
}

# Install what is missing; without root only say so.
need_packages() {
    command -v dpkg-query >/dev/null || die 3 "this script knows Debian packages only; install: ${PACKAGES[*]}"
    local missing
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086
    if is_root; then
        printf '    installing: %s\n' "${missing//$'\n'/ }"
        export DEBIAN_FRONTEND=noninteractive
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >"${TMPDIR:-/tmp}/millrace-apt.$$" 2>&1 ||
            { tail -n 5 "${TMPDIR:-/tmp}/millrace-apt.$$" >&2; die 3 "apt-get could not install: ${missing//$'\n'/ }"; }
        rm -f "${TMPDIR:-/tmp}/millrace-apt.$$"
    else
        die 3 "packages are missing; as root: apt-get install -y ${missing//$'\n'/ }"
    fi
}

need_rust() {
    [ -n "${CARGO_HOME:-}" ] || [ ! -d "$HOME/.cargo/bin" ] || PATH=$HOME/.cargo/bin:$PATH
    local want have
    want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! command -v cargo >/dev/null; then
        printf 'millrace: Rust %s or newer is needed, and there is no cargo here.\n' "$want" >&2
        printf '  Debian 12 packages an older one; get it by rustup, see https://rustup.rs\n' >&2
        exit 3
    fi
    have=$(rustc --version | awk '{ print $2 }')
    if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ]; then
        die 3 "Rust $want or newer is needed, this is $have; run: rustup update"
    fi
}

# make_network TAG MTU: a namespace for the kernel's end of a veth pair and one for ours, so that
# several runs do not disturb each other; removed at exit.
make_network() {
    local tag=$1 mtu=$2
    ns=millrace-$tag-$$
    ns_us=$ns-us
    us=mr$$u
    them=mr$$k
    tmp=$(mktemp -d)
    trap clean_network EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    ip netns add "$ns"
    ip netns add "$ns_us"
    ip -n "$ns" link add "$them" type veth peer name "$us" netns "$ns_us"
    ip netns exec "$ns_us" sysctl -q -w "net.ipv6.conf.$us.disable_ipv6=1"
    ip netns exec "$ns" sysctl -q -w net.ipv4.tcp_no_metrics_save=1
    ip -n "$ns" addr add "$KERNEL_IP4/24" dev "$them"
    ip -n "$ns" addr add "$KERNEL_IP6/64" dev "$them" nodad
    ip -n "$ns_us" link set "$us" mtu "$mtu" up
    ip -n "$ns" link set "$them" mtu "$mtu" up
    ip -n "$ns" link set lo up
    # A veth peer leaves checksums and segmentation to hardware that is not there.
    no_offloads "$ns_us" "$us"
    no_offloads "$ns" "$them"
}

no_offloads() { ip netns exec "$1" ethtool -K "$2" tso off gso off gro off tx off rx off >/dev/null 2>&1 || true; }

clean_network() {
    local status=$? n
    clear_progress
    [ -z "${server_pid:-}" ] || { kill "$server_pid" 2>/dev/null && wait "$server_pid" 2>/dev/null; } || true
    for n in "$ns" "$ns_us"; do
        ip netns pids "$n" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
        ip netns del "$n" 2>/dev/null || true
    done
    rm -rf "$tmp"
    rm -f "/run/millrace/$ns.sock"
    return "$status"
}

# start_server MILLRACE [flags]: our iperf server on our end; waits until it listens.
start_server() {
    local millrace=$1
    shift
    ip netns exec "$ns_us" "$millrace" iperf -s --instance "$ns" --vdev "net_af_packet0,iface=$us" \
        --address "$OUR_IP4/24" --address "$OUR_IP6/64" "$@" >"$tmp/server.log" 2>&1 &
    server_pid=$!
    local i
    for i in $(seq 100); do
        grep -q 'Server listening' "$tmp/server.log" && return 0
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.1
    done
    cat "$tmp/server.log" >&2
    die 1 "the server did not start (waited $i tenths of a second)"
}

stop_server() {
    kill "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
    server_pid=
}

# Gbit/s of the receiver in the last log of iperf3.
receiver_gbit() {
    awk '/receiver/ { for (i = 1; i <= NF; i++) if ($i == "Mbits/sec") v = $(i - 1) } END { printf "%.2f\n", v / 1000 }' "$tmp/iperf3.log"
}

# kernel_iperf ARGS: run the kernel's iperf3 and print Gbit/s of the receiver. bbr, where it is the
# default of the machine, paces itself below what the link carries.
kernel_iperf() {
    ip netns exec "$ns" timeout 120 iperf3 -f m -C cubic "$@" >"$tmp/iperf3.log" 2>&1 || return 1
    receiver_gbit
}

# testpmd NAMESPACE CORE INTERFACE FRAME [FLAGS]: the device alone, with rings for frames of that size;
# its commands come from standard input.
testpmd() {
    local where=$1 core=$2 interface=$3 frame=$4 framesz=2048 room=2176
    shift 4
    [ "$frame" -le 1900 ] || { framesz=16384; room=16640; }
    ip netns exec "$where" dpdk-testpmd --lcores "0@$core,1@$core" --no-pci --no-huge --no-shconf --no-telemetry -m 256 \
        --file-prefix "$ns-$interface" \
        --vdev "net_af_packet0,iface=$interface,framesz=$framesz,blocksz=65536,framecnt=2048" -- \
        -i --nb-cores=1 --total-num-mbufs=8192 "--mbuf-size=$room" "$@"
}

# device_bound PAYLOAD [FRAME]: Gbit/s of PAYLOAD bytes per frame that testpmd sends to testpmd.
device_bound() {
    local payload=$1 frame=${2:-1514}
    { printf 'set fwd rxonly\nstart\n'; sleep 4; printf 'show port stats all\n'; sleep 2; printf 'show port stats all\nstop\nquit\n'; } |
        testpmd "$ns" 1 "$them" "$frame" >"$tmp/rx.log" 2>&1 &
    local rx=$!
    { sleep 1; printf 'set fwd txonly\nset txpkts %s\nstart\n' "$frame"; sleep 6; printf 'stop\nquit\n'; } |
        testpmd "$ns_us" 0 "$us" "$frame" >"$tmp/tx.log" 2>&1 || true
    wait $rx || true
    awk -v payload="$payload" '/Rx-pps:/ { pps = $2 } END { printf "%.2f\n", pps * payload * 8 / 1e9 }' "$tmp/rx.log"
}
