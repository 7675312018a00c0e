//! A link as a path of the command line says it: the way back of [`super::link_keys`].

use core::time::Duration;

use base::Rate;

use crate::link::{LinkConfig, Loss, Room, Share};

/// The path that makes `config` out of the ordinary link: what is as usual is left out.
pub fn path_of(config: &LinkConfig) -> String {
    let usual = LinkConfig::default();
    let mut parts = Vec::new();
    let mut say = |differs: bool, key: &str, value: String| {
        if differs {
            parts.push(format!("{key}={value}"));
        }
    };
    say(config.delay != usual.delay, "delay", time(config.delay));
    say(config.jitter != usual.jitter, "jitter", time(config.jitter));
    say(config.rate != usual.rate, "rate", rate(config.rate));
    say(config.queue != usual.queue, "queue", room(config.queue));
    let mark = config.ecn_mark.map_or_else(|| "none".to_owned(), room);
    say(config.ecn_mark != usual.ecn_mark, "ecn_mark", mark);
    say(config.loss != usual.loss, "loss", loss(config.loss));
    let held = format!("{}/{}", share(config.reorder.p), time(config.reorder.by));
    say(config.reorder != usual.reorder, "reorder", held);
    say(config.duplicate != usual.duplicate, "duplicate", share(config.duplicate));
    say(config.corrupt != usual.corrupt, "corrupt", share(config.corrupt));
    let policer = config
        .policer
        .map_or_else(|| "none".to_owned(), |p| format!("{}/{}B", rate(p.rate), p.burst));
    say(config.policer != usual.policer, "policer", policer);
    say(config.mtu != usual.mtu, "mtu", config.mtu.to_string());
    let limit = config.drop_larger_than.map_or_else(|| "none".to_owned(), |n| n.to_string());
    say(config.drop_larger_than != usual.drop_larger_than, "drop_larger_than", limit);
    say(config.up != usual.up, "up", config.up.to_string());
    parts.join(",")
}

/// `amount` in the largest unit that needs no fraction.
fn whole(amount: u64, units: &[(u64, &str)]) -> String {
    let fits = units.iter().rev().find(|(size, _)| amount >= *size && amount.is_multiple_of(*size));
    let (size, unit) = fits.or(units.first()).copied().unwrap_or((1, ""));
    format!("{}{unit}", amount / size)
}

fn time(time: Duration) -> String {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    whole(nanos, &[(1, "ns"), (1000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")])
}

fn rate(rate: Rate) -> String {
    if rate == Rate::UNLIMITED {
        return "unlimited".to_owned();
    }
    let bits = rate.bytes_per_sec().saturating_mul(8);
    whole(bits, &[(1, "bit"), (1000, "kbit"), (1_000_000, "Mbit"), (1_000_000_000, "Gbit")])
}

fn room(room: Room) -> String {
    match room {
        Room::Packets(n) => format!("{n}pkt"),
        Room::Bytes(n) => {
            whole(n, &[(1, "B"), (1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB")])
        }
    }
}

/// In percent with as many digits as it has.
fn share(share: Share) -> String {
    let (whole, rest) = (share.ppm() / 10_000, share.ppm() % 10_000);
    let text = format!("{whole}.{rest:04}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn loss(loss: Loss) -> String {
    match loss {
        Loss::None => "0%".to_owned(),
        Loss::Random(p) => share(p),
        Loss::Bursts { good_to_bad, bad_to_good, bad } => {
            format!("{}/{}/{}", share(good_to_bad), share(bad_to_good), share(bad))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::link_keys::apply_path;
    use super::*;
    use crate::link::{Policer, Reorder};

    #[test]
    fn what_is_usual_is_not_said() {
        assert_eq!(path_of(&LinkConfig::default()), "");
        let mut config = LinkConfig::default();
        let text = "delay=50ms,rate=100Mbit,queue=1MiB,loss=0.25%,reorder=5%/10ms,mtu=1500";
        apply_path(text, &mut config).expect("a good path");
        assert_eq!(path_of(&config), text);
    }

    fn share() -> impl Strategy<Value = Share> {
        (0u32..=1_000_000).prop_map(Share::from_ppm)
    }

    fn room() -> impl Strategy<Value = Room> {
        prop_oneof![
            (1u64..1 << 40).prop_map(Room::Bytes),
            (1u32..10_000_000).prop_map(Room::Packets)
        ]
    }

    fn rate() -> impl Strategy<Value = Rate> {
        prop_oneof![
            Just(Rate::UNLIMITED),
            (1u64..10_000_000_000_000).prop_map(Rate::from_bytes_per_sec)
        ]
    }

    fn time() -> impl Strategy<Value = Duration> {
        (0u64..86_400_000_000_000).prop_map(Duration::from_nanos)
    }

    fn loss() -> impl Strategy<Value = Loss> {
        prop_oneof![
            Just(Loss::None),
            (1u32..=1_000_000).prop_map(|ppm| Loss::Random(Share::from_ppm(ppm))),
            (share(), share(), share()).prop_map(|(good_to_bad, bad_to_good, bad)| Loss::Bursts {
                good_to_bad,
                bad_to_good,
                bad
            }),
        ]
    }

    prop_compose! {
        fn link()(
            rate in rate(), delay in time(), jitter in time(), queue in room(), ecn_mark in prop::option::of(room()),
            loss in loss(), reorder in (1u32..=1_000_000, time()), duplicate in share(), corrupt in share(),
        )(
            policer in prop::option::of((1u64..1 << 40, 1u64..1 << 40)), mtu in 68u16.., limit in prop::option::of(68u16..),
            up in any::<bool>(), rate in Just(rate), delay in Just(delay), jitter in Just(jitter), queue in Just(queue),
            ecn_mark in Just(ecn_mark), loss in Just(loss), reorder in Just(reorder), duplicate in Just(duplicate),
            corrupt in Just(corrupt),
        ) -> LinkConfig {
            LinkConfig {
                rate, delay, jitter, queue, ecn_mark, loss, duplicate, corrupt, mtu, up, drop_larger_than: limit,
                reorder: Reorder { p: Share::from_ppm(reorder.0), by: reorder.1 },
                policer: policer.map(|(rate, burst)| Policer { rate: Rate::from_bytes_per_sec(rate), burst }),
            }
        }
    }

    proptest! {
        #[test]
        fn any_link_is_read_back(config in link()) {
            let mut read = LinkConfig::default();
            let text = path_of(&config);
            prop_assert!(apply_path(&text, &mut read).is_ok(), "{}", text);
            prop_assert_eq!(read, config, "{}", text);
        }
    }
}
