use std::vec;
use std::vec::Vec;

use base::mem::{MemConfig, MemDevice, MemFrame};
use base::{Device, Random, SeededRandom};

use super::*;
use crate::egress::Payload;

fn device() -> MemDevice {
    MemDevice::detached(&MemConfig::default())
}

fn filled(device: &mut MemDevice, bytes: &[u8]) -> MemFrame {
    let mut frame = device.payload_alloc().unwrap();
    frame.push_back(bytes.len()).unwrap().copy_from_slice(bytes);
    frame
}

/// The bytes of a range, and whether it is one buffer whose sum is known.
fn look(
    store: &SendStore,
    storage: &mut Storage<MemFrame>,
    seq: SeqNum,
    len: usize,
) -> (Vec<u8>, bool) {
    let view = store.view(storage);
    let mut bytes = Vec::new();
    let (mut count, mut known) = (0, true);
    for piece in view.pieces(seq, len) {
        let part = &piece.frame.head()[piece.offset..piece.offset + piece.len];
        known &= piece.sum.is_some_and(|sum| sum == accel::checksum(part, 0));
        assert!(piece.sum.is_none() || piece.sum == Some(accel::checksum(part, 0)));
        bytes.extend_from_slice(part);
        count += 1;
    }
    (bytes, known && count == 1)
}

#[test]
fn bulk_data_are_cut_where_segments_will_be() {
    for (mss, writes) in [(1448, 1000), (1448, 16_384), (1000, 7), (700, 5000)] {
        let mut device = device();
        let mut storage = Storage::new(4096, 1);
        let mut store = SendStore::default();
        let start = SeqNum::new(0xffff_f000);
        store.start(start);
        let data: Vec<u8> =
            (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut at = start;
        for part in data.chunks(writes) {
            let place = AppendPlace { write_seq: at, mss, all_sent: at == start };
            let (taken, _) = store.append(&mut storage, &mut device, place, part, || true);
            assert_eq!(taken, part.len());
            at = at.add(taken as u32);
        }
        for (i, part) in data.chunks(mss as usize).enumerate() {
            let seq = start.add(i as u32 * mss);
            let (bytes, whole) = look(&store, &mut storage, seq, part.len());
            assert!(bytes == part);
            assert!(whole || mss < 1024, "segment {i} of {mss} is no whole buffer");
        }
        store.release(&mut storage, at);
        assert!(storage.is_empty());
        assert_eq!(device.buffers().free, device.buffers().total);
    }
}

#[test]
fn small_writes_share_a_buffer_even_when_sent_one_by_one() {
    let mut device = device();
    let mut storage = Storage::new(64, 1);
    let mut store = SendStore::default();
    let mut at = SeqNum::new(5);
    store.start(at);
    for i in 0..8_u8 {
        let place = AppendPlace { write_seq: at, mss: 1448, all_sent: true };
        let data = [i; 64];
        let (taken, _) = store.append(&mut storage, &mut device, place, &data, || true);
        assert_eq!(taken, 64);
        assert_eq!(look(&store, &mut storage, at, 64).0, data);
        at = at.add(64);
    }
    assert_eq!(device.buffers().total - device.buffers().free, 1);
    // A buffer that a driver still refers to is not written any more.
    let shared = {
        let view = store.view(&mut storage);
        let piece = view.pieces(SeqNum::new(5), 64).next().unwrap();
        device.share(piece.frame, 0, 64).unwrap()
    };
    let place = AppendPlace { write_seq: at, mss: 1448, all_sent: true };
    store.append(&mut storage, &mut device, place, &[9; 64], || true);
    assert_eq!(device.buffers().total - device.buffers().free, 2);
    drop(shared);
    store.clear(&mut storage);
}

#[test]
fn any_writes_and_any_ranges_agree_with_a_flat_buffer() {
    let mut random = SeededRandom::new(8);
    for round in 0..40 {
        let mut device = device();
        let mut storage = Storage::new(4096, round);
        let mut store = SendStore::default();
        let start = SeqNum::new(random.next_u64() as u32);
        store.start(start);
        let (mut flat, mut acked): (Vec<u8>, usize) = (Vec::new(), 0);
        for _ in 0..300 {
            let end = start.add(flat.len() as u32);
            if random.below(3) > 0 {
                let len = [1, 60, 600, 3000][random.below(4) as usize];
                let data: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                let mss = [1448, 536, 8948][random.below(3) as usize];
                let place = AppendPlace { write_seq: end, mss, all_sent: random.below(2) == 0 };
                let (taken, _) = store.append(&mut storage, &mut device, place, &data, || true);
                flat.extend(&data[..taken]);
            } else {
                acked += random.below((flat.len() - acked) as u32 / 2 + 1) as usize;
                store.release(&mut storage, start.add(acked as u32));
            }
            let from = acked + random.below((flat.len() - acked) as u32 + 1) as usize;
            let len = random.below((flat.len() - from) as u32 + 1) as usize;
            let (bytes, _) = look(&store, &mut storage, start.add(from as u32), len);
            assert!(bytes == flat[from..from + len]);
        }
        store.clear(&mut storage);
        assert_eq!(device.buffers().free, device.buffers().total);
    }
}

#[test]
fn nothing_is_taken_without_buffers() {
    let mut device = device();
    let mut storage = Storage::new(64, 1);
    let mut store = SendStore::default();
    store.start(SeqNum::new(0));
    let place = AppendPlace { write_seq: SeqNum::new(0), mss: 1448, all_sent: true };
    let mut allowed = 2;
    let result = store.append(&mut storage, &mut device, place, &vec![1; 10_000], || {
        allowed -= 1;
        allowed >= 0
    });
    assert_eq!(result, (2 * 1448, Shortage::Buffers));
    store.clear(&mut storage);
}

/// The beginning of a run of pieces at or after `from`: bytes of one buffer are given up together.
fn given_up(have: &[bool], pieces: &[(usize, usize)], from: usize) -> Option<usize> {
    let begins_a_run = |at: usize| at == 0 || !have[at - 1];
    pieces.iter().map(|p| p.0).filter(|&at| at >= from && begins_a_run(at)).min()
}

#[test]
fn pieces_out_of_order_come_together() {
    let mut random = SeededRandom::new(3);
    for round in 0..50_u64 {
        let mut device = device();
        let mut storage = Storage::new(4096, round);
        let mut recv = RecvStore::default();
        let start = SeqNum::new(random.next_u64() as u32);
        recv.start(start);
        let data: Vec<u8> = (0..30_000).map(|_| random.next_u64() as u8).collect();
        // Cut, shuffle, deliver; what is next in order goes straight to the reader.
        let mut cuts = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let len = (1 + random.below(900) as usize).min(data.len() - at);
            cuts.push((at, len));
            at += len;
        }
        let mut next = 0;
        let mut have = vec![false; data.len()];
        // Those that wait beyond a hole.
        let mut pieces: Vec<(usize, usize)> = Vec::new();
        while !cuts.is_empty() {
            let (at, len) = cuts.swap_remove(random.below(cuts.len() as u32) as usize);
            if random.below(10) == 0 {
                recv.collapse(&mut storage);
            }
            // Now and then all beyond some place is given up, and comes again.
            if random.below(20) == 0 {
                let from = next + random.below((data.len() - next) as u32) as usize;
                // What is given up are whole pieces: begin where one does.
                if let Some(from) = given_up(&have, &pieces, from) {
                    recv.prune(&mut storage, start.add(from as u32));
                    let again: Vec<_> = pieces.extract_if(.., |p| p.0 >= from).collect();
                    for &(at, len) in &again {
                        have[at..at + len].fill(false);
                    }
                    cuts.extend(again);
                }
            }
            let dense = random.below(2) == 0;
            let frame = filled(&mut device, &data[at..at + len]);
            let stored = if at == next {
                recv.append(&mut storage, frame, dense)
            } else {
                pieces.push((at, len));
                recv.insert(&mut storage, start.add(at as u32), frame, dense)
            };
            assert_ne!(stored, Stored::Full);
            have[at..at + len].fill(true);
            while have.get(next) == Some(&true) {
                next += 1;
            }
            assert!(recv.advance(&mut storage, start.add(next as u32)));
            pieces.retain(|p| p.0 >= next);
            assert_eq!(recv.readable() as usize, next);
            let buffers = device.buffers();
            assert_eq!(recv.held, buffers.total - buffers.free);
        }
        let mut got = Vec::new();
        let taken = recv.read(&mut storage, &mut |bytes| {
            got.extend_from_slice(bytes);
            bytes.len()
        });
        assert!(taken as usize == data.len() && got == data);
        assert!(storage.is_empty());
    }
}
