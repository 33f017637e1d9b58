//! Ends of a MANIFEST: torn appends in every shape, and damage that must not pass for one.

use super::*;
use crate::torn::{is_torn_append, judge};

use pumice_base::checksum::mask_crc;

const SECTOR: usize = 512;

/// The group countdown of the tests' records: their first byte, 255 for none.
fn countdown(record: &[u8]) -> Option<u32> {
    record.first().filter(|left| **left != 255).map(|left| u32::from(*left))
}

fn torn(bytes: &[u8], from: usize) -> bool {
    is_torn_append(&bytes[from..], from as u64, &countdown).is_ok()
}

/// A record without zeros of its own.
fn record(rng: &mut Rng, left: u8, bytes: usize) -> Vec<u8> {
    let mut record: Vec<u8> = rng.bytes(bytes).iter().map(|byte| byte | 1).collect();
    record[0] = left;
    record
}

/// A file of `synced` and then `appended`, and where the second part begins.
fn file(synced: &[Vec<u8>], appended: &[Vec<u8>]) -> (Vec<u8>, usize) {
    let from = write_log(synced, false).len();
    (write_log(&[synced, appended].concat(), false), from)
}

/// The pieces of sectors after `from`.
fn pieces(len: usize, from: usize) -> Vec<std::ops::Range<usize>> {
    (from / SECTOR..len.div_ceil(SECTOR))
        .map(|sector| (sector * SECTOR).max(from)..((sector + 1) * SECTOR).min(len))
        .collect()
}

/// The file without the pieces whose bit in `lost` is set. It ends after the last surviving piece,
/// unless its length survived.
fn tear(bytes: &[u8], from: usize, lost: u64, keep_length: bool) -> Vec<u8> {
    let mut torn = bytes.to_vec();
    let pieces = pieces(bytes.len(), from);
    for (at, piece) in pieces.iter().enumerate() {
        if lost >> at & 1 == 1 {
            torn[piece.clone()].fill(0);
        }
    }
    if !keep_length {
        let last = (0..pieces.len()).rev().find(|at| lost >> at & 1 == 0);
        torn.truncate(last.map_or(from, |at| pieces[at].end));
    }
    torn
}

/// Every way to lose sectors of appends that start and end anywhere.
#[pumice_test_macros::test]
fn every_tear_of_an_append_is_recognised() {
    let mut rng = Rng::new(seed());
    let mut tears = 0;
    for round in 0..600 {
        let synced = vec![record(&mut rng, 255, 1 + round % 700), record(&mut rng, 255, 40)];
        let members = 1 + rng.uniform(3) as u8;
        let appended: Vec<Vec<u8>> = (0..members)
            .map(|i| {
                let left = if members == 1 { 255 } else { members - 1 - i };
                let bytes = 1 + rng.uniform(1200) as usize;
                record(&mut rng, left, bytes)
            })
            .collect();
        let (bytes, from) = file(&synced, &appended);
        let count = pieces(bytes.len(), from).len() as u32;
        for lost in 1..1u64 << count {
            for keep_length in [false, true] {
                let torn_bytes = tear(&bytes, from, lost, keep_length);
                assert!(torn_bytes != bytes);
                tears += 1;
                assert!(torn(&torn_bytes, from), "round {round} lost {lost:b} {keep_length}");
            }
        }
    }
    assert!(tears > 10_000, "{tears}");
}

/// The same over the end of a block, where one record is several physical ones.
#[pumice_test_macros::test]
fn a_tear_over_a_block_boundary_is_recognised() {
    let mut rng = Rng::new(2);
    for short in 0..40 {
        let before = BLOCK_BYTES - 1030 - short;
        let synced = vec![record(&mut rng, 255, before)];
        let (bytes, from) = file(&synced, &[record(&mut rng, 255, 2000)]);
        for lost in 1..1u64 << pieces(bytes.len(), from).len() {
            for keep_length in [false, true] {
                let torn_bytes = tear(&bytes, from, lost, keep_length);
                assert!(torn(&torn_bytes, from), "short {short} lost {lost:b} {keep_length}");
            }
        }
    }
}

/// A crash between two writes of one append leaves zeros from the second on.
#[pumice_test_macros::test]
fn zeros_up_to_the_end_are_a_tear() {
    let mut rng = Rng::new(3);
    let (bytes, from) = file(&[record(&mut rng, 255, 300)], &[record(&mut rng, 255, 700)]);
    for start in from..bytes.len() - 7 {
        let mut torn_bytes = bytes.clone();
        torn_bytes[start..].fill(0);
        assert!(torn(&torn_bytes, from), "zeros from {start}");
    }
    for end in from..bytes.len() {
        assert!(torn(&bytes[..end], from), "cut at {end}");
    }
}

/// One changed byte in the last change, whatever its new value, is damage: also where sector
/// boundaries leave pieces of a few bytes that are legitimately zero.
#[pumice_test_macros::test]
fn a_damaged_byte_is_no_tear() {
    let mut rng = Rng::new(4);
    for size in (1..40).chain(480..540) {
        let mut last = record(&mut rng, 255, 24 + size);
        let zeros = last.len() - 5;
        last[zeros..].fill(0);
        let (bytes, from) = file(&[record(&mut rng, 255, 400)], &[last]);
        for at in from..bytes.len() {
            for mask in [1, 0x80, 0xff, bytes[at]] {
                let mut damaged = bytes.clone();
                damaged[at] ^= mask;
                if damaged == bytes {
                    continue;
                }
                // A piece of one byte that became zero is also what a tear leaves.
                let piece = pieces(bytes.len(), from).into_iter().find(|p| p.contains(&at));
                let piece = piece.unwrap();
                if damaged[piece].iter().all(|byte| *byte == 0) {
                    continue;
                }
                assert!(!torn(&damaged, from), "size {size} at {at} ^ {mask}");
            }
        }
    }
}

/// Bytes that are not zeros were never lost by a crash.
#[pumice_test_macros::test]
fn a_sector_of_anything_else_is_no_tear() {
    let mut rng = Rng::new(5);
    let (bytes, from) = file(&[record(&mut rng, 255, 300)], &[record(&mut rng, 255, 2000)]);
    for piece in pieces(bytes.len(), from) {
        for fill in [1, 0xff] {
            let mut damaged = bytes.clone();
            damaged[piece.clone()].fill(fill);
            assert!(!torn(&damaged, from), "{piece:?} of {fill:#x}");
        }
        // Zeros, but not up to the sector's end.
        let mut damaged = bytes.clone();
        if piece.len() > 20 && piece.end != bytes.len() {
            damaged[piece.start + 1..piece.end - 1].fill(0);
            assert!(!torn(&damaged, from), "{piece:?} but for its ends");
        }
    }
}

#[pumice_test_macros::test]
fn a_sound_change_behind_it_proves_damage() {
    let mut rng = Rng::new(6);
    for first in 100..1700 {
        let appended = [record(&mut rng, 255, first), record(&mut rng, 255, 60)];
        let (bytes, from) = file(&[record(&mut rng, 255, 300)], &appended);
        let second = bytes.len() - 67;
        for (at, piece) in pieces(bytes.len(), from).iter().enumerate() {
            if piece.end <= second {
                assert!(!torn(&tear(&bytes, from, 1 << at, true), from), "first {first} {piece:?}");
            }
        }
    }
}

#[pumice_test_macros::test]
fn a_second_group_behind_it_proves_damage() {
    let mut rng = Rng::new(7);
    // Two groups of two; the second member of the first one is lost, or the first.
    let appended = [1, 0, 1, 0].map(|left| record(&mut rng, left, 1200));
    let (bytes, from) = file(&[record(&mut rng, 255, 300)], &appended);
    let (second, third) = (from + 1207, from + 2 * 1207);
    let mut proven = 0;
    for (at, piece) in pieces(bytes.len(), from).iter().enumerate() {
        if piece.end <= third {
            // With both members lost it is indistinguishable from the rest of a group of four.
            let both = piece.contains(&second);
            assert_eq!(torn(&tear(&bytes, from, 1 << at, true), from), both, "{piece:?}");
            proven += usize::from(!both);
        }
    }
    assert!(proven > 1);
}

#[pumice_test_macros::test]
fn any_bytes_at_all_are_judged() {
    let mut rng = Rng::new(8);
    for _ in 0..20_000 {
        let len = rng.uniform(3000) as usize;
        let mut bytes = rng.bytes(len);
        for _ in 0..rng.uniform(4) {
            let from = rng.uniform(len as u64 + 1) as usize;
            let to = from + rng.uniform((len - from) as u64 + 1) as usize;
            bytes[from..to].fill(0);
        }
        let offset = rng.uniform(100_000);
        // It must terminate and not panic; its answer for such bytes does not matter.
        let answer = is_torn_append(&bytes, offset, &countdown);
        assert!(answer.is_ok() || answer.is_err_and(|why| !why.is_empty()));
    }
}

/// Tails crafted to keep the check busy: the bytes it examines are proportional to their length.
/// Without range sums it would checksum whole records from every byte of a block on.
#[pumice_test_macros::test]
fn crafted_ends_are_judged_in_linear_time() {
    const BLOCKS: usize = 64;
    let mut middle = [vec![0; 6], vec![3], vec![7; SECTOR - 7]].concat();
    let sum = mask_crc(pumice_base::checksum::crc32c(&middle[6..]));
    middle[..4].copy_from_slice(&sum.to_le_bytes());
    middle[4..6].copy_from_slice(&(SECTOR as u16 - 7).to_le_bytes());
    let ends = [
        // Every other byte may begin a record of half a block.
        ("headers", [vec![0; SECTOR], [4, 0x3f].repeat((BLOCK_BYTES - SECTOR) / 2)].concat()),
        ("one byte length", [vec![0; SECTOR], vec![1; BLOCK_BYTES - SECTOR]].concat()),
        ("records between lost sectors", [vec![0; SECTOR], middle].concat().repeat(32)),
        ("lost sectors", [vec![0; 1023], vec![1]].concat().repeat(32)),
        ("nearly lost sectors", [vec![0; 511], vec![1]].concat().repeat(64)),
    ];
    let mut ends: Vec<_> =
        ends.into_iter().map(|(name, block)| (name, block.repeat(BLOCKS))).collect();
    let mut zeros = vec![0; BLOCKS * BLOCK_BYTES];
    zeros[BLOCKS * BLOCK_BYTES - 1] = 1;
    ends.push(("zeros and a byte", zeros));
    for (name, end) in ends {
        for offset in [0, 3, SECTOR as u64 - 5, BLOCK_BYTES as u64 - 40] {
            let (answer, looked_at) = judge(&end, offset, &countdown);
            println!("{name} at {offset}: {answer:?}, {looked_at} of {}", end.len());
            let most = 8 * end.len() as u64 + (64 << 20);
            assert!(looked_at <= most, "{name} at {offset}: {looked_at} of {}", end.len());
        }
    }
}

/// `PUMICE_SEED`, or always the same.
fn seed() -> u64 {
    std::env::var("PUMICE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}
