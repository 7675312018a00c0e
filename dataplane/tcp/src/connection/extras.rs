//! What few applications ask for, and the numbers that only `TCP_INFO` shows: kept apart, so that other
//! connections do not pay for it.

use alloc::collections::VecDeque;
use core::time::Duration;

use base::Instant;

use super::{Connection, Flags};
use crate::recovery::rate::RateSample;
use crate::send::Quiet;
use crate::{ConnOptions, Cx, SeqNum, TcpParams};

/// Ends of records (`MSG_EOR`) that wait to be sent at most. What is sent beyond them may be merged.
pub(super) const RECORDS_MAX: usize = 4096;

/// Attached once it is asked for.
#[derive(Clone, Debug)]
pub(super) struct Extras {
    /// `TCP_CORK`.
    pub(super) cork: bool,
    /// Data that arrive once we have sent a FIN reset the connection.
    refuse_text: bool,
    /// `TCP_NOTSENT_LOWAT`, instead of the knob.
    pub(super) notsent_lowat: Option<u32>,
    /// `TCP_WINDOW_CLAMP`, bytes.
    pub(super) window_clamp: Option<u32>,
    /// Ends of records that were not sent yet, in order.
    records: VecDeque<SeqNum>,
    pub(super) tally: Tally,
}

/// What holds a connection up that has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// Nothing in particular, the network above all.
    Network,
    /// The peer's window.
    PeerWindow,
    /// The send buffer: the application has more, and everything is under way.
    SendBuffer,
}

/// Numbers of `TCP_INFO` that nothing else needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    pub(super) data_segs_in: u32,
    pub(super) data_segs_out: u32,
    pub(super) delivered: u32,
    pub(super) delivered_ce: u32,
    pub(super) dsack_dups: u32,
    pub(super) reord_seen: u32,
    pub(super) rcv_ooopack: u32,
    /// Kept from the extension: the rate of delivery.
    pub(super) rate: Option<RateSample>,
    /// Retransmission timeouts since something was acknowledged.
    pub(super) retransmits: u8,
    pub(super) rto_recoveries: u16,
    pub(super) rto_time: Duration,
    rto_since: Option<Instant>,
    pub(super) last_data_sent: Instant,
    pub(super) last_data_recv: Instant,
    /// Time spent under each [`Limit`], in their order.
    spent: [Duration; 3],
    limit: Option<(Limit, Instant)>,
}

impl Tally {
    const fn new(now: Instant) -> Self {
        Self {
            data_segs_in: 0,
            data_segs_out: 0,
            // The handshake has delivered a SYN.
            delivered: 1,
            delivered_ce: 0,
            dsack_dups: 0,
            reord_seen: 0,
            rcv_ooopack: 0,
            rate: None,
            retransmits: 0,
            rto_recoveries: 0,
            rto_time: Duration::ZERO,
            rto_since: None,
            last_data_sent: now,
            last_data_recv: now,
            spent: [Duration::ZERO; 3],
            limit: None,
        }
    }

    /// Data were sent, perhaps again.
    pub(super) fn on_sent(&mut self, now: Instant, segs: u32) {
        self.data_segs_out = self.data_segs_out.wrapping_add(segs);
        self.last_data_sent = now;
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.retransmits == 0 {
            self.rto_recoveries = self.rto_recoveries.saturating_add(1);
            self.rto_since = Some(now);
        }
        self.retransmits = self.retransmits.saturating_add(1);
    }

    pub(super) fn on_progress(&mut self, now: Instant) {
        self.retransmits = 0;
        if let Some(since) = self.rto_since.take() {
            self.rto_time += now.since(since);
        }
    }

    fn note(&mut self, now: Instant, limit: Option<Limit>) {
        if self.limit.map(|(limit, _)| limit) == limit {
            return;
        }
        if let Some((limit, since)) = self.limit {
            self.spent[limit as usize] += now.since(since);
        }
        self.limit = limit.map(|limit| (limit, now));
    }

    /// How long there was something to send; how much of it the peer's window, and how much the send
    /// buffer was the reason.
    pub(super) fn times(&self, now: Instant) -> [Duration; 3] {
        let mut tally = *self;
        tally.note(now, None);
        let [network, window, buffer] = tally.spent;
        [network + window + buffer, window, buffer]
    }
}

impl Connection {
    /// Take over the part of the options that is kept here.
    pub(super) fn set_extras(&mut self, now: Instant, options: &ConnOptions) {
        let asked = options.cork
            || options.tally
            || options.refuse_text
            || options.notsent_lowat.is_some()
            || options.window_clamp.is_some();
        if !asked && self.extras.is_none() {
            return;
        }
        let extras = self.extras(now);
        let uncorked = core::mem::replace(&mut extras.cork, options.cork) && !options.cork;
        extras.notsent_lowat = options.notsent_lowat;
        extras.window_clamp = options.window_clamp;
        extras.refuse_text = options.refuse_text;
        if uncorked {
            self.hot.flags.clear(Flags::MORE);
        }
    }

    fn extras(&mut self, now: Instant) -> &mut Extras {
        self.extras.get_or_insert_with(|| {
            Extras {
                cork: false,
                refuse_text: false,
                notsent_lowat: None,
                window_clamp: None,
                records: VecDeque::new(),
                tally: Tally::new(now),
            }
            .into()
        })
    }

    pub(super) fn tally(&mut self) -> Option<&mut Tally> {
        self.extras.as_mut().map(|extras| &mut extras.tally)
    }

    /// What was sent so far and what follows are never in one segment (`MSG_EOR`), also when it is sent
    /// again.
    pub fn end_record(&mut self, cx: &Cx<'_>) {
        let end = self.hot.write_seq;
        if end.at_or_before(self.hot.snd_nxt) {
            return;
        }
        let records = &mut self.extras(cx.now).records;
        if records.back() != Some(&end) && records.len() < RECORDS_MAX {
            records.push_back(end);
        }
    }

    /// Where the record ends that `snd_nxt` lies in, if that is marked.
    pub(super) fn record_end(&self) -> Option<SeqNum> {
        self.extras.as_ref()?.records.front().copied()
    }

    /// Where the last record ends that is marked.
    pub(super) fn last_record(&self) -> Option<SeqNum> {
        self.extras.as_ref()?.records.back().copied()
    }

    /// Everything before `snd_nxt` was sent.
    pub(super) fn forget_records(&mut self) {
        let snd_nxt = self.hot.snd_nxt;
        if let Some(extras) = &mut self.extras {
            while extras.records.front().is_some_and(|end| end.at_or_before(snd_nxt)) {
                extras.records.pop_front();
            }
        }
    }

    /// Something has arrived. As on Linux, an announcement of more holds a partial segment back for this
    /// write only; what an acknowledgement sets going takes it along.
    pub(super) fn stop_waiting_for_more(&mut self) {
        if self.extras.is_some() {
            self.hot.flags.clear(Flags::MORE);
        }
    }

    /// Whether nobody reads any more, while we have closed our side.
    pub(super) fn refuses_text(&self) -> bool {
        self.hot.flags.has(Flags::FIN_QUEUED)
            && self.extras.as_ref().is_some_and(|extras| extras.refuse_text)
    }

    pub(super) fn is_corked(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.cork)
    }

    pub(super) fn notsent_lowat(&self, params: &TcpParams) -> u32 {
        let own = self.extras.as_ref().and_then(|extras| extras.notsent_lowat);
        own.unwrap_or(params.notsent_lowat)
    }

    pub(super) fn window_clamp(&self) -> u32 {
        self.extras.as_ref().and_then(|extras| extras.window_clamp).unwrap_or(u32::MAX)
    }

    /// Account for the time: what holds the connection up from now on.
    pub(super) fn note_limit(&mut self, now: Instant) {
        if self.extras.is_none() {
            return;
        }
        let unsent = self.has_unsent();
        let limit = if !unsent && self.packets_out() == 0 {
            None
        } else if unsent && matches!(self.hot.quiet, Quiet::PeerWindow | Quiet::Sws) {
            Some(Limit::PeerWindow)
        } else if !unsent && self.hot.flags.has(Flags::WANT_WRITABLE) {
            Some(Limit::SendBuffer)
        } else {
            Some(Limit::Network)
        };
        if let Some(tally) = self.tally() {
            tally.note(now, limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn time_goes_to_what_held_things_up() {
        let mut tally = Tally::new(ms(0));
        for (at, limit) in [
            (10, Some(Limit::Network)),
            (30, Some(Limit::PeerWindow)),
            (31, Some(Limit::PeerWindow)),
            (60, Some(Limit::SendBuffer)),
            (100, None),
            (500, Some(Limit::Network)),
        ] {
            tally.note(ms(at), limit);
        }
        let millis = |times: [Duration; 3]| times.map(|time| time.as_millis());
        assert_eq!(millis(tally.times(ms(500))), [90, 30, 40]);
        assert_eq!(millis(tally.times(ms(507))), [97, 30, 40], "what goes on counts");
    }

    #[test]
    fn a_series_of_timeouts_is_one_recovery() {
        let mut tally = Tally::new(ms(0));
        tally.on_timeout(ms(100));
        tally.on_timeout(ms(300));
        assert_eq!((tally.retransmits, tally.rto_recoveries), (2, 1));
        tally.on_progress(ms(350));
        tally.on_progress(ms(400));
        assert_eq!((tally.retransmits, tally.rto_time), (0, Duration::from_millis(250)));
    }
}
