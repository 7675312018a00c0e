//! The programs.

use loom::thread;

use crate::mailbox::{Backlog, GoneOnDrop, Inbox, Questions, Shared};
use crate::sync::{Arc, Ordering};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    Number(u32),
    SetParams(u64),
    Snapshot(u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outgoing {
    Number(u32),
    Applied(u64),
    /// Which question it answers, and the generation at that time.
    Snapshot(u32, u64),
}

type Boxes = Shared<Command, Outgoing>;

fn boxes(commands: usize, results: usize) -> Arc<Boxes> {
    Shared::new(commands, results)
}

#[test]
fn commands_arrive_in_order_through_an_inbox_that_is_full() {
    loom::model(|| {
        let shared = boxes(1, 1);
        let worker = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let mut got = Vec::new();
            for _ in 0..2 {
                got.extend(Inbox(&worker.inbox));
                thread::yield_now();
            }
            got
        });
        let mut backlog = Backlog::new();
        for n in 0..3 {
            backlog.post(&shared.inbox, Command::Number(n));
        }
        backlog.flush(&shared.inbox);
        let mut got = worker.join().unwrap();
        // What it has not taken is still there, in order.
        while backlog.len() > 0 {
            got.extend(Inbox(&shared.inbox));
            backlog.flush(&shared.inbox);
        }
        got.extend(Inbox(&shared.inbox));
        assert_eq!(got, [0, 1, 2].map(Command::Number));
    });
}

#[test]
fn two_workers_and_the_control_thread_share_an_inbox() {
    loom::model(|| {
        let shared = boxes(2, 1);
        let other = Arc::clone(&shared);
        // A fellow worker posts a message.
        let other = thread::spawn(move || other.inbox.push(Command::Number(100)).is_ok());
        let mut backlog = Backlog::new();
        backlog.post(&shared.inbox, Command::Number(1));
        backlog.post(&shared.inbox, Command::Number(2));
        let sent = other.join().unwrap();
        let mut got: Vec<Command> = Inbox(&shared.inbox).collect();
        backlog.flush(&shared.inbox);
        got.extend(Inbox(&shared.inbox));
        let ours: Vec<_> = got.iter().filter(|c| **c != Command::Number(100)).collect();
        assert_eq!(ours, [&Command::Number(1), &Command::Number(2)]);
        assert_eq!(got.len() - ours.len(), usize::from(sent), "refused and delivered, or neither");
    });
}

#[test]
fn who_sees_that_a_worker_is_gone_sees_all_that_it_did() {
    loom::model(|| {
        let shared = boxes(1, 2);
        let worker = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let _gone = GoneOnDrop(&worker);
            for turn in 1..=2 {
                worker.outbox.push(Outgoing::Number(turn)).unwrap();
                worker.heartbeat.store(turn.into(), Ordering::Relaxed);
            }
        });
        if shared.is_gone() {
            assert_eq!(shared.heartbeat.load(Ordering::Relaxed), 2);
            assert_eq!(shared.outbox.pop(), Some(Outgoing::Number(1)));
            assert_eq!(shared.outbox.pop(), Some(Outgoing::Number(2)));
        }
        worker.join().unwrap();
        assert!(shared.is_gone());
    });
}

/// The same without the guard's ordering: loom must find the interleaving in which it fails, or the
/// test above proves nothing.
#[test]
#[should_panic(expected = "a flag alone says nothing")]
fn a_relaxed_flag_would_be_noticed() {
    use crate::sync::AtomicBool;
    loom::model(|| {
        let shared = boxes(1, 1);
        let gone = Arc::new(AtomicBool::new(false));
        let (worker, flag) = (Arc::clone(&shared), Arc::clone(&gone));
        let worker = thread::spawn(move || {
            worker.heartbeat.store(1, Ordering::Relaxed);
            flag.store(true, Ordering::Relaxed);
        });
        if gone.load(Ordering::Relaxed) {
            let seen = shared.heartbeat.load(Ordering::Relaxed);
            assert_eq!(seen, 1, "a flag alone says nothing");
        }
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_that_is_asked_to_quit_leaves_and_its_results_stay() {
    loom::model(|| {
        let shared = boxes(1, 2);
        let worker = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let _gone = GoneOnDrop(&worker);
            let mut turns = 0;
            while !worker.shall_quit() && turns < 2 {
                turns += 1;
                worker.outbox.push(Outgoing::Number(turns)).unwrap();
                thread::yield_now();
            }
            turns
        });
        shared.ask_to_quit();
        let turns = worker.join().unwrap();
        assert!(shared.is_gone());
        for turn in 1..=turns {
            assert_eq!(shared.outbox.pop(), Some(Outgoing::Number(turn)));
        }
        assert_eq!(shared.outbox.pop(), None);
    });
}

/// One turn of a worker that runs with `generation`, as `stack` does it: commands first, answers in
/// their order, and what the outbox refuses stays for the next turn.
fn turn(shared: &Boxes, generation: &mut u64, waiting: &mut Backlog<Outgoing>) {
    for command in Inbox(&shared.inbox) {
        let answer = match command {
            Command::SetParams(new) => {
                *generation = new;
                Outgoing::Applied(new)
            }
            Command::Snapshot(which) => Outgoing::Snapshot(which, *generation),
            Command::Number(n) => Outgoing::Number(n),
        };
        waiting.post(&shared.outbox, answer);
    }
    waiting.flush(&shared.outbox);
}

#[test]
fn an_acknowledged_generation_is_the_one_that_runs() {
    loom::model(|| {
        let shared = boxes(2, 1);
        let worker = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let (mut generation, mut waiting) = (0, Backlog::new());
            for _ in 0..2 {
                turn(&worker, &mut generation, &mut waiting);
                thread::yield_now();
            }
            (generation, waiting)
        });
        let mut backlog = Backlog::new();
        backlog.post(&shared.inbox, Command::SetParams(1));
        backlog.post(&shared.inbox, Command::SetParams(2));
        backlog.post(&shared.inbox, Command::Snapshot(0));
        let mut acknowledged = 0;
        let mut listen = |result: Option<Outgoing>| match result {
            Some(Outgoing::Applied(generation)) => {
                assert_eq!(generation, acknowledged + 1, "in the order of the changes");
                acknowledged = generation;
                true
            }
            Some(Outgoing::Snapshot(_, generation)) => {
                assert_eq!(generation, 2, "a question comes after the changes before it");
                true
            }
            other => other.is_some(),
        };
        listen(shared.outbox.pop());
        let (mut generation, mut waiting) = worker.join().unwrap();
        // The worker goes on turning, and the control thread listening, until all is said.
        for _ in 0..4 {
            backlog.flush(&shared.inbox);
            turn(&shared, &mut generation, &mut waiting);
            while listen(shared.outbox.pop()) {}
        }
        assert_eq!(acknowledged, 2);
    });
}

#[test]
fn a_late_answer_is_none_to_the_next_question() {
    loom::model(|| {
        let shared = boxes(2, 2);
        let worker = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let (mut generation, mut waiting) = (0, Backlog::new());
            turn(&worker, &mut generation, &mut waiting);
            waiting
        });
        let (mut backlog, mut questions) = (Backlog::new(), Questions::new());
        backlog.post(&shared.inbox, Command::Snapshot(1));
        questions.asked(1);
        // Nobody waits any longer than this.
        let first = shared.outbox.pop();
        backlog.post(&shared.inbox, Command::Snapshot(2));
        questions.asked(2);
        let mut answers: Vec<Outgoing> = first.into_iter().collect();
        let mut waiting = worker.join().unwrap();
        for _ in 0..3 {
            turn(&shared, &mut 0, &mut waiting);
            answers.extend(std::iter::from_fn(|| shared.outbox.pop()));
        }
        for answer in answers {
            let Outgoing::Snapshot(which, _) = answer else { panic!("{answer:?}") };
            assert_eq!(questions.answered(), Some(which));
        }
        assert_eq!(questions.answered(), None);
    });
}
