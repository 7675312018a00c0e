//! The eleven states of RFC 9293 section 3.3.2, and the ways between them.

/// A connection state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of RFC 9293, figure 5")]
pub enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// What moves a connection from state to state: the labels of RFC 9293 figure 5, and what ends a
/// connection early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateEvent {
    /// The application listens.
    PassiveOpen,
    /// The application connects (a SYN goes out).
    ActiveOpen,
    /// A SYN without an acknowledgement of ours has come.
    Syn,
    /// A SYN that acknowledges ours has come.
    SynAck,
    /// Our SYN was acknowledged by a segment without SYN.
    AckOfSyn,
    /// The application closes (a FIN goes out).
    Close,
    /// The peer's FIN has come, in order.
    Fin,
    /// Our FIN was acknowledged.
    AckOfFin,
    /// A reset was accepted.
    Reset,
    /// The application aborts, or a timer gives up.
    Abort,
    /// Two maximum segment lifetimes have passed since TIME-WAIT began.
    TimeWaitEnd,
}

impl State {
    /// All states, in the order of the RFC.
    pub const ALL: [Self; 11] = [
        Self::Closed,
        Self::Listen,
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::FinWait1,
        Self::FinWait2,
        Self::CloseWait,
        Self::Closing,
        Self::LastAck,
        Self::TimeWait,
    ];

    /// The state after `event`; `None` if the event cannot happen in this state or changes nothing.
    ///
    /// A segment that carries both an acknowledgement of our FIN and the peer's own FIN is two
    /// events, in this order. A half-open connection of a listener is a record of its own, so its
    /// reset ends in CLOSED: the listener never left LISTEN.
    pub const fn after(self, event: StateEvent) -> Option<Self> {
        use StateEvent as E;
        Some(match (self, event) {
            (Self::Closed, E::PassiveOpen) => Self::Listen,
            (Self::Closed | Self::Listen, E::ActiveOpen) => Self::SynSent,
            (Self::Listen | Self::SynSent, E::Syn) => Self::SynReceived,
            (Self::SynSent | Self::SynReceived, E::SynAck) | (Self::SynReceived, E::AckOfSyn) => {
                Self::Established
            }
            (Self::Listen | Self::SynSent, E::Close) => Self::Closed,
            (Self::SynReceived | Self::Established, E::Close) => Self::FinWait1,
            (Self::CloseWait, E::Close) => Self::LastAck,
            (Self::SynReceived | Self::Established, E::Fin) => Self::CloseWait,
            (Self::FinWait1, E::Fin) => Self::Closing,
            (Self::FinWait2, E::Fin) => Self::TimeWait,
            (Self::FinWait1, E::AckOfFin) => Self::FinWait2,
            (Self::Closing, E::AckOfFin) => Self::TimeWait,
            (Self::LastAck, E::AckOfFin) | (Self::TimeWait, E::TimeWaitEnd) => Self::Closed,
            // A reset says nothing to a listener, and there is nothing in CLOSED.
            (Self::Closed, _) | (Self::Listen, E::Reset) => return None,
            (_, E::Reset | E::Abort) => Self::Closed,
            _ => return None,
        })
    }

    /// Both sides have seen each other's SYN: RFC 9293 calls these states synchronised.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::String;

    const EVENTS: [StateEvent; 11] = [
        StateEvent::PassiveOpen,
        StateEvent::ActiveOpen,
        StateEvent::Syn,
        StateEvent::SynAck,
        StateEvent::AckOfSyn,
        StateEvent::Close,
        StateEvent::Fin,
        StateEvent::AckOfFin,
        StateEvent::Reset,
        StateEvent::Abort,
        StateEvent::TimeWaitEnd,
    ];

    /// To be held against RFC 9293 figure 5.
    const TABLE: &str = "            PassiveOpen ActiveOpen  Syn         SynAck      AckOfSyn    Close       Fin         AckOfFin    Reset       Abort       TimeWaitEnd
Closed      Listen      SynSent     -           -           -           -           -           -           -           -           -
Listen      -           SynSent     SynReceived -           -           Closed      -           -           -           Closed      -
SynSent     -           -           SynReceived Established -           Closed      -           -           Closed      Closed      -
SynReceived -           -           -           Established Established FinWait1    CloseWait   -           Closed      Closed      -
Established -           -           -           -           -           FinWait1    CloseWait   -           Closed      Closed      -
FinWait1    -           -           -           -           -           -           Closing     FinWait2    Closed      Closed      -
FinWait2    -           -           -           -           -           -           TimeWait    -           Closed      Closed      -
CloseWait   -           -           -           -           -           LastAck     -           -           Closed      Closed      -
Closing     -           -           -           -           -           -           -           TimeWait    Closed      Closed      -
LastAck     -           -           -           -           -           -           -           Closed      Closed      Closed      -
TimeWait    -           -           -           -           -           -           -           -           Closed      Closed      Closed
";

    fn name(state: Option<State>) -> String {
        state.map_or_else(|| String::from("-"), |s| format!("{s:?}"))
    }

    #[test]
    fn all_transitions() {
        let line = |first: String, cells: [String; 11]| {
            let mut line = format!("{first:<12}");
            for cell in cells {
                line += &format!("{cell:<12}");
            }
            format!("{}\n", line.trim_end())
        };
        let mut text = line(String::new(), EVENTS.map(|e| format!("{e:?}")));
        for state in State::ALL {
            text += &line(format!("{state:?}"), EVENTS.map(|e| name(state.after(e))));
        }
        assert!(text == TABLE, "the transitions changed; now:\n{text}");
    }

    #[test]
    fn every_state_is_reached_and_left() {
        for state in State::ALL {
            let reached =
                State::ALL.iter().any(|s| EVENTS.iter().any(|e| s.after(*e) == Some(state)));
            let left = EVENTS.iter().any(|e| state.after(*e).is_some());
            assert!(reached && left, "{state:?}");
        }
    }

    #[test]
    fn synchronised_states() {
        let synchronized = State::ALL.iter().filter(|s| s.is_synchronized()).count();
        assert_eq!(synchronized, 7);
        assert!(!State::SynReceived.is_synchronized() && State::Established.is_synchronized());
    }
}
