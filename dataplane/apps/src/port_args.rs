//! Ports on the command line: each begins with its device, and what belongs to it follows.
//!
//! `--vdev A --address X --vdev B --address Y` are two ports. What stands before the first device
//! belongs to it, so that one port can be described in any order.

use std::fmt;
use std::ops::Deref;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use config::startup::MorePort;

use crate::cli::{DataplaneArgs, RxChecksum};
use crate::fault::Fault;

/// The flags of a dataplane, with those of its ports in the order in which they were given.
pub(crate) struct PortArgs {
    flags: DataplaneArgs,
    words: Vec<Word>,
}

/// One flag of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Vdev(String),
    Pci(String),
    Address(String),
    Gateway(String),
    Mtu(u16),
    RxChecksum(&'static str),
}

impl PortArgs {
    /// The ports, in the order of their devices; one without a device if none is named.
    pub(crate) fn ports(&self) -> Result<Vec<MorePort>, Fault> {
        let mut ports = vec![MorePort::default()];
        for word in &self.words {
            let is_device = matches!(word, Word::Vdev(_) | Word::Pci(_));
            if is_device && ports.last().is_some_and(|p| p.vdev.is_some() || p.pci.is_some()) {
                ports.push(MorePort::default());
            }
            let Some(port) = ports.last_mut() else { continue };
            let twice = match word.clone() {
                Word::Vdev(text) => port.vdev.replace(text).map(|_| "--vdev"),
                Word::Pci(text) => port.pci.replace(text).map(|_| "--pci"),
                Word::Mtu(n) => port.mtu.replace(n.into()).map(|_| "--mtu"),
                Word::RxChecksum(text) => {
                    port.rx_checksum.replace(text.to_owned()).map(|_| "--rx-checksum")
                }
                Word::Address(text) => {
                    port.addresses.push(text);
                    None
                }
                Word::Gateway(text) => {
                    port.gateways.push(text);
                    None
                }
            };
            if let Some(flag) = twice {
                return Err(Fault::usage(format!("{flag}: given twice for one port"))
                    .help("what belongs to a port follows its --vdev or --pci"));
            }
        }
        Ok(ports)
    }
}

impl Deref for PortArgs {
    type Target = DataplaneArgs;

    fn deref(&self) -> &DataplaneArgs {
        &self.flags
    }
}

impl fmt::Debug for PortArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.flags.fmt(f)
    }
}

impl Args for PortArgs {
    fn augment_args(cmd: Command) -> Command {
        DataplaneArgs::augment_args(cmd)
    }

    fn augment_args_for_update(cmd: Command) -> Command {
        DataplaneArgs::augment_args_for_update(cmd)
    }
}

impl FromArgMatches for PortArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = DataplaneArgs::from_arg_matches(matches)?;
        let mut words = Vec::new();
        let mut add = |id: &str, found: Vec<Word>| {
            words.extend(matches.indices_of(id).into_iter().flatten().zip(found));
        };
        add("vdev", flags.vdevs.iter().cloned().map(Word::Vdev).collect());
        add("pci", flags.pcis.iter().cloned().map(Word::Pci).collect());
        add("address", flags.addresses.iter().cloned().map(Word::Address).collect());
        add("gateway", flags.gateways.iter().cloned().map(Word::Gateway).collect());
        add("mtu", flags.mtus.iter().copied().map(Word::Mtu).collect());
        let policy = |policy: &RxChecksum| match policy {
            RxChecksum::Verify => Word::RxChecksum("verify"),
            RxChecksum::Trust => Word::RxChecksum("trust"),
        };
        add("rx-checksum", flags.rx_checksums.iter().map(policy).collect());
        words.sort_by_key(|(index, _)| *index);
        Ok(Self { flags, words: words.into_iter().map(|(_, word)| word).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        ports: PortArgs,
    }

    fn ports(line: &str) -> Result<Vec<MorePort>, String> {
        let words = std::iter::once("test").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|e| e.to_string())?;
        line.ports.ports().map_err(|e| e.what)
    }

    fn port(vdev: &str, addresses: &[&str], mtu: Option<i64>) -> MorePort {
        MorePort {
            vdev: Some(vdev.to_owned()),
            addresses: addresses.iter().map(|a| (*a).to_owned()).collect(),
            mtu,
            ..MorePort::default()
        }
    }

    #[test]
    fn what_belongs_to_a_port_follows_its_device() {
        let found =
            ports("--vdev a --address 1 --mtu 600 --vdev b --address 2 --address 3").unwrap();
        assert_eq!(found, [port("a", &["1"], Some(600)), port("b", &["2", "3"], None)]);
        let found = ports("--address 1 --mtu 600 --vdev a --address 2").unwrap();
        assert_eq!(found, [port("a", &["1", "2"], Some(600))], "one port in any order");
        let found = ports("--vdev a --gateway g --pci p --rx-checksum trust --gateway h").unwrap();
        assert_eq!((found[0].gateways[0].as_str(), found[1].gateways[0].as_str()), ("g", "h"));
        assert_eq!((found[0].rx_checksum.as_deref(), found[1].pci.as_deref()), (None, Some("p")));
        assert_eq!(found[1].rx_checksum.as_deref(), Some("trust"));
        assert_eq!(ports("").unwrap(), [MorePort::default()]);
    }

    #[test]
    fn what_a_port_has_once_is_given_once() {
        let error = ports("--vdev a --mtu 600 --mtu 700").unwrap_err();
        assert_eq!(error, "--mtu: given twice for one port");
        ports("--config x --vdev a").unwrap_err();
    }
}
