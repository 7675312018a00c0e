//! What the runner knows of one socket of the script: its addresses, and how the script's numbers
//! become those of the wire and back.
//!
//! Scripts count from zero. A SYN carries the initial sequence number as written; whatever is not a SYN
//! counts from that initial number, which for our side is the stack's choice.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use super::lang::ast::{SackBlock, TcpOption};

/// How far a connection has come, as the script shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `socket()` was called, nothing else.
    New,
    /// `listen()` was called: the next inbound segment makes a child.
    Listening,
    /// A child whose SYN has been injected, and whose SYN-ACK has not been seen.
    SynReceived,
    /// A child whose SYN-ACK has been seen.
    SynAckSeen,
    /// A child whose handshake the script has completed.
    Completed,
    /// `connect()` was called, and no SYN has been expected.
    Connecting,
    /// The SYN is expected, or was seen.
    SynSent,
    /// The script has answered the SYN.
    SynAcked,
}

/// The transport of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `SOCK_STREAM`.
    Tcp,
    /// `SOCK_DGRAM`.
    Udp,
}

/// One socket or pending child.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Descriptor in the script; `None` for a child that was not accepted.
    pub fd: Option<i32>,
    /// The script has closed it.
    pub closed: bool,
    /// The script has injected a reset.
    pub reset: bool,
    /// Its transport.
    pub transport: Transport,
    /// How far it has come.
    pub stage: Stage,
    /// Our end; `None` until the stack has chosen it.
    pub local: Option<SocketAddr>,
    /// The peer's end; `None` before `connect()`.
    pub remote: Option<SocketAddr>,
    /// Our initial sequence number as the script has it, and as the stack chose it.
    pub local_isn: Isn,
    /// The peer's, which the script chooses.
    pub remote_isn: u32,
    /// Timestamps.
    pub timestamps: Timestamps,
    /// The flow label as the script calls it, and as it is.
    pub label: Option<(u32, u32)>,
    /// What a reset needs to say to be believed.
    pub last: LastSegments,
}

/// An initial sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Isn {
    /// In the script.
    pub script: u32,
    /// On the wire; `None` until it is known.
    pub live: Option<u32>,
}

/// The last segments of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastSegments {
    /// Inbound: the sequence number behind it and its acknowledgement, if it had one, and its window.
    pub inbound: Option<(u32, Option<u32>, u16)>,
    /// Outbound: its sequence number and its acknowledgement, if it had one.
    pub outbound: Option<(u32, Option<u32>)>,
}

impl LastSegments {
    /// Sequence and acknowledgement number and window of a reset that the stack accepts. `None`:
    /// nothing was exchanged.
    pub fn reset(&self) -> Option<(u32, u32, u16)> {
        match (self.inbound, self.outbound) {
            (Some((seq, Some(ack), window)), _) => Some((seq, ack, window)),
            (_, Some((seq, Some(ack)))) => Some((ack, seq, 0)),
            // Only a SYN of ours: whatever our number is, the acknowledgement is what counts.
            (_, Some((seq, None))) => Some((0, seq.wrapping_add(1), 0)),
            (_, None) => None,
        }
    }
}

impl Flow {
    /// A socket that nothing is known of.
    pub fn new(fd: Option<i32>, transport: Transport, stage: Stage) -> Self {
        Self {
            fd,
            closed: false,
            reset: false,
            transport,
            stage,
            local: None,
            remote: None,
            local_isn: Isn::default(),
            remote_isn: 0,
            timestamps: Timestamps::default(),
            label: None,
            last: LastSegments::default(),
        }
    }

    /// What is added to a number of our side on its way from the script to the wire.
    fn local_offset(&self, syn: bool) -> u32 {
        let live = self.local_isn.live.unwrap_or_default();
        if syn { live.wrapping_sub(self.local_isn.script) } else { live }
    }

    /// What is added to a number of the peer's side.
    fn remote_offset(&self, syn: bool) -> u32 {
        if syn { 0 } else { self.remote_isn }
    }

    /// A sequence number of ours, from the script to the wire.
    pub fn local_to_live(&self, seq: u32, syn: bool) -> u32 {
        seq.wrapping_add(self.local_offset(syn))
    }

    /// A sequence number of ours, from the wire to the script.
    pub fn local_to_script(&self, seq: u32, syn: bool) -> u32 {
        seq.wrapping_sub(self.local_offset(syn))
    }

    /// A sequence number of the peer's, from the script to the wire.
    pub fn remote_to_live(&self, seq: u32, syn: bool) -> u32 {
        seq.wrapping_add(self.remote_offset(syn))
    }

    /// A sequence number of the peer's, from the wire to the script.
    pub fn remote_to_script(&self, seq: u32, syn: bool) -> u32 {
        seq.wrapping_sub(self.remote_offset(syn))
    }

    /// Options of an inbound segment: SACK edges are numbers of ours, and what is echoed is a time of
    /// ours.
    ///
    /// # Errors
    /// If the script echoes a timestamp that was never seen, see [`Timestamps::to_live`].
    pub fn options_to_live(
        &self,
        options: &[TcpOption],
        syn: bool,
        ack: bool,
        scaled: bool,
    ) -> Result<Vec<TcpOption>, u32> {
        let edge = |seq| self.local_to_live(seq, syn);
        options
            .iter()
            .map(|option| match option {
                TcpOption::Sack(blocks) => {
                    Ok(TcpOption::Sack(blocks.iter().map(|b| map_block(*b, edge)).collect()))
                }
                TcpOption::Timestamps { val, ecr } if ack => {
                    let ecr = self.timestamps.to_live(*ecr, scaled).ok_or(*ecr)?;
                    Ok(TcpOption::Timestamps { val: *val, ecr })
                }
                other => Ok(other.clone()),
            })
            .collect()
    }

    /// An option of an outbound segment: SACK edges are numbers of the peer.
    pub fn option_to_script(&self, option: &TcpOption, syn: bool) -> TcpOption {
        let edge = |seq| self.remote_to_script(seq, syn);
        match option {
            TcpOption::Sack(blocks) => {
                TcpOption::Sack(blocks.iter().map(|b| map_block(*b, edge)).collect())
            }
            TcpOption::Timestamps { val, ecr } => {
                TcpOption::Timestamps { val: self.timestamps.to_script(*val), ecr: *ecr }
            }
            other => other.clone(),
        }
    }

    /// Compare a flow label with what the script calls it; the first one binds, and each change binds
    /// again.
    ///
    /// # Errors
    /// In words, what is different.
    pub fn check_label(&mut self, script: u32, live: u32) -> Result<(), String> {
        if live == 0 {
            return Err("the packet carries no flow label".into());
        }
        match self.label {
            Some((name, bound)) if name == script => {
                if bound != live {
                    return Err(format!(
                        "flow label {script:#x} stood for {bound:#x}, but the packet has {live:#x}"
                    ));
                }
            }
            Some((name, bound)) if bound == live => {
                return Err(format!(
                    "flow label {script:#x} must differ from {name:#x}, but both are {live:#x}"
                ));
            }
            _ => self.label = Some((script, live)),
        }
        Ok(())
    }
}

fn map_block(block: SackBlock, edge: impl Fn(u32) -> u32) -> SackBlock {
    SackBlock { left: edge(block.left), right: edge(block.right) }
}

/// Outbound timestamps of a flow: as the script writes them, and as the stack sent them.
#[derive(Clone, Debug, Default)]
pub struct Timestamps {
    seen: BTreeMap<u32, u32>,
    first: Option<(u32, u32)>,
}

impl Timestamps {
    /// A packet with TSval `live` was expected with TSval `script`.
    pub fn learn(&mut self, script: u32, live: u32) {
        self.seen.insert(script, live);
        self.first.get_or_insert((script, live));
    }

    /// The value on the wire for one that the script echoes. `scaled`: values that were never seen
    /// are as far from the first one as in the script.
    pub fn to_live(&self, script: u32, scaled: bool) -> Option<u32> {
        let (first_script, first_live) = self.first.unwrap_or_default();
        let exact = self.seen.get(&script).copied();
        let interpolated = || script.wrapping_sub(first_script).wrapping_add(first_live);
        exact.or_else(|| (scaled && self.first.is_some()).then(interpolated))
    }

    /// A value of the wire in the numbers of the script: as far from the first one as on the wire.
    pub fn to_script(&self, live: u32) -> u32 {
        let (first_script, first_live) = self.first.unwrap_or((0, 0));
        live.wrapping_sub(first_live).wrapping_add(first_script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(script: u32, live: u32, remote: u32) -> Flow {
        let mut flow = Flow::new(Some(3), Transport::Tcp, Stage::Completed);
        flow.local_isn = Isn { script, live: Some(live) };
        flow.remote_isn = remote;
        flow
    }

    #[test]
    fn numbers_count_from_the_initial_ones_but_in_a_syn() {
        let f = flow(100, 5000, 700);
        assert_eq!(f.local_to_live(100, true), 5000);
        assert_eq!(f.local_to_live(1, false), 5001);
        assert_eq!(f.local_to_script(5000, true), 100);
        assert_eq!(f.local_to_script(5001, false), 1);
        assert_eq!(f.remote_to_live(700, true), 700);
        assert_eq!(f.remote_to_live(1, false), 701);
        assert_eq!(f.remote_to_script(701, true), 701);
        assert_eq!(f.remote_to_script(701, false), 1);
    }

    #[test]
    fn numbers_wrap() {
        let f = flow(0, u32::MAX, 0);
        assert_eq!(f.local_to_live(1, false), 0);
        assert_eq!(f.local_to_script(9, false), 10);
    }

    #[test]
    fn sack_edges_and_echoes_are_ours() {
        let mut f = flow(0, 1000, 0);
        f.timestamps.learn(100, 77_100);
        let sack = TcpOption::Sack(vec![SackBlock { left: 1, right: 2 }]);
        let ts = |val, ecr| TcpOption::Timestamps { val, ecr };
        assert_eq!(
            f.options_to_live(&[sack.clone(), ts(9, 100)], false, true, false),
            Ok(vec![TcpOption::Sack(vec![SackBlock { left: 1001, right: 1002 }]), ts(9, 77_100)])
        );
        assert_eq!(f.options_to_live(&[ts(9, 101)], false, true, false), Err(101));
        assert_eq!(f.options_to_live(&[ts(9, 101)], false, true, true), Ok(vec![ts(9, 77_101)]));
        // Without ACK nothing is echoed.
        assert_eq!(f.options_to_live(&[ts(9, 101)], true, false, false), Ok(vec![ts(9, 101)]));
        // Ours acknowledge the peer's numbers, and show our clock in the script's terms.
        assert_eq!(f.option_to_script(&sack, false), sack);
        assert_eq!(f.option_to_script(&ts(77_150, 5), false), ts(150, 5));
    }

    #[test]
    fn flow_labels_are_names() {
        let mut f = flow(0, 0, 0);
        assert!(f.check_label(1, 0).is_err());
        assert_eq!(f.check_label(1, 0xabc), Ok(()));
        assert_eq!(f.check_label(1, 0xabc), Ok(()));
        assert!(f.check_label(1, 0xabd).is_err());
        assert!(f.check_label(2, 0xabc).is_err());
        assert_eq!(f.check_label(2, 0xabd), Ok(()));
        // The first name is free again.
        assert_eq!(f.check_label(1, 0xabe), Ok(()));
    }

    #[test]
    fn a_reset_says_what_the_stack_believes() {
        let mut last = LastSegments::default();
        assert_eq!(last.reset(), None);
        last.outbound = Some((10, None));
        assert_eq!(last.reset(), Some((0, 11, 0)));
        last.outbound = Some((11, Some(50)));
        assert_eq!(last.reset(), Some((50, 11, 0)));
        last.inbound = Some((60, Some(12), 7));
        assert_eq!(last.reset(), Some((60, 12, 7)));
        last.inbound = Some((0, None, 7));
        assert_eq!(last.reset(), Some((50, 11, 0)));
    }
}
