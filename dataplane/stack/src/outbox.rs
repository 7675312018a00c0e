//! What waits to leave the stack.

use alloc::collections::VecDeque;

use crate::{Message, Outgoing};

/// Messages of applications that wait at most.
const OUTBOX_MESSAGES: usize = 1024;
/// Places for answers to the control thread beyond that, which no application can take away.
const OUTBOX_ANSWERS: usize = 64;

/// A bounded queue in order of creation.
pub(crate) struct Outbox {
    queue: VecDeque<Outgoing>,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::with_capacity(OUTBOX_MESSAGES + OUTBOX_ANSWERS) }
    }

    /// A message of an application; given back when the queue is full.
    pub(crate) fn push_message(
        &mut self,
        message: Message,
        wrap: impl FnOnce(Message) -> Outgoing,
    ) -> Result<(), Message> {
        if self.queue.len() >= OUTBOX_MESSAGES {
            return Err(message);
        }
        self.queue.push_back(wrap(message));
        Ok(())
    }

    /// An answer to the control thread. Beyond the bound, which takes a control thread that asks
    /// without ever listening, the oldest entry makes room.
    pub(crate) fn push_answer(&mut self, answer: Outgoing) {
        if self.queue.len() >= OUTBOX_MESSAGES + OUTBOX_ANSWERS {
            self.queue.pop_front();
        }
        self.queue.push_back(answer);
    }

    /// Offer what waits, oldest first, until something is refused.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(Outgoing) -> Result<(), Outgoing>) -> u32 {
        let mut taken = 0;
        while let Some(next) = self.queue.pop_front() {
            if let Err(refused) = take(next) {
                self.queue.push_front(refused);
                break;
            }
            taken += 1;
        }
        taken
    }

    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

    #[test]
    fn refused_messages_stay_in_order_and_the_bound_gives_back() {
        let mut outbox = Outbox::new();
        for i in 0..OUTBOX_MESSAGES as u64 {
            assert!(outbox.push_message(Box::new(i), Outgoing::Publish).is_ok());
        }
        let back = outbox.push_message(Box::new(7_u64), Outgoing::Publish).unwrap_err();
        assert_eq!(back.downcast_ref::<u64>(), Some(&7));
        outbox.push_answer(Outgoing::ParamsApplied(3));

        assert_eq!(outbox.drain(&mut |m| Err(m)), 0);
        let mut next = 0_u64;
        let mut applied = 0;
        outbox.drain(&mut |m| {
            match m {
                Outgoing::Publish(m) => {
                    assert_eq!(m.downcast_ref::<u64>(), Some(&next));
                    next += 1;
                }
                Outgoing::ParamsApplied(g) => applied = g,
                _ => unreachable!("nothing else was sent"),
            }
            Ok(())
        });
        assert_eq!((next, applied), (OUTBOX_MESSAGES as u64, 3));
        assert!(outbox.is_empty());
    }
}
