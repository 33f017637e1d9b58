//! Slabs against a model of what is in use, and packed bytes across threads.
//!
//! Not under Miri, which has no huge pages.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_port::thread;

use super::size_class::{LARGEST, class_of, size_of_class};
use super::slab::Slab;
use super::span::CHUNK_BYTES;
use super::*;

/// Takes and gives back at random; `on_step` sees how many objects are in use.
struct Model {
    slab: Slab,
    rng: Rng,
    /// By address: bytes, and the byte that fills them.
    used: BTreeMap<usize, (usize, u8)>,
}

impl Model {
    fn new(seed: u64) -> Self {
        Model { slab: Slab::new(), rng: Rng::new(seed), used: BTreeMap::new() }
    }

    fn take(&mut self, bytes: usize) {
        let class = class_of(bytes).unwrap();
        let object = self.slab.try_take(class, true).expect("no other thread, and memory is left");
        let at = object.as_ptr().addr();
        assert_eq!(at % 16, 0);
        let size = size_of_class(class);
        if let Some((before, (len, _))) = self.used.range(..=at).next_back() {
            assert!(before + len <= at, "{before:#x} + {len} and {at:#x}");
        }
        if let Some((after, _)) = self.used.range(at + 1..).next() {
            assert!(at + size <= *after, "{at:#x} + {size} and {after:#x}");
        }
        let fill = self.rng.next_u64() as u8;
        // SAFETY: an object of `size` bytes that nothing else uses.
        unsafe { object.as_ptr().write_bytes(fill, size) };
        self.used.insert(at, (size, fill));
    }

    fn give_back(&mut self) {
        let pivot = self.rng.next_u64() as usize & 0xFFFF_FFFF_FFFF;
        let found = self.used.range(pivot..).next().or_else(|| self.used.first_key_value());
        let Some((&at, &(len, fill))) = found else { return };
        self.used.remove(&at);
        let object = NonNull::new(ptr::with_exposed_provenance_mut::<u8>(at)).unwrap();
        // SAFETY: an object of `len` bytes of the slab that is in use here alone.
        unsafe {
            let bytes = slice::from_raw_parts(object.as_ptr(), len);
            assert!(bytes.iter().all(|byte| *byte == fill), "{at:#x} was written to");
            self.slab.give_back(object);
        }
    }
}

/// Objects do not overlap and keep their bytes; what is given back is used again, and in the end
/// all memory is the kernel's.
#[pumice_test_macros::test]
fn slab_against_a_model() {
    for seed in 0..8 {
        let mut model = Model::new(seed);
        let mut chunks_most = 0;
        for round in 0..6 {
            let largest = [300, 4096, LARGEST][model.rng.uniform(3) as usize];
            let wanted = if round % 2 == 0 { 12 << 20 } else { 1 << 20 };
            for _ in 0..60_000 {
                let bytes: usize = model.used.len() * largest / 2;
                let taking = model.rng.uniform(100) < if bytes < wanted { 80 } else { 20 };
                if taking {
                    let bytes = 1 + model.rng.uniform(largest as u64) as usize;
                    model.take(bytes);
                } else {
                    model.give_back();
                }
                chunks_most = chunks_most.max(model.slab.chunks_in_use());
            }
        }
        assert!(chunks_most >= 3, "seed {seed}: {chunks_most} chunks");
        while !model.used.is_empty() {
            model.give_back();
        }
        assert!(model.slab.trim(), "seed {seed}");
        assert_eq!(model.slab.chunks_in_use(), 0, "seed {seed}");
    }
}

/// Takers that move from slab to slab, as a full cache's do, find the room that those before them
/// left.
#[pumice_test_macros::test]
fn loads_that_move_take_no_more_memory() {
    const OBJECTS: usize = 4_000;
    let slabs: Vec<Slab> = (0..4).map(|_| Slab::new()).collect();
    let class = class_of(4096).unwrap();
    let mut rng = Rng::new(1);
    let mut used = VecDeque::new();
    for i in 0..20 * OBJECTS {
        let phase = i / OBJECTS;
        let usual = if rng.one_in(8) { rng.uniform(4) as usize } else { phase };
        used.push_back(take_from(&slabs, usual, class).unwrap());
        if used.len() > OBJECTS {
            let object = used.pop_front().unwrap();
            // SAFETY: an object in use here alone leads to its chunk's header, that to its slab.
            unsafe { (*(*Chunk::of(object.as_ptr())).slab).give_back(object) };
        }
    }
    let chunks: usize = slabs.iter().map(Slab::chunks_in_use).sum();
    let needed = (OBJECTS * size_of_class(class)).div_ceil(CHUNK_BYTES);
    assert!(chunks <= needed + slabs.len(), "{chunks} chunks, {needed} needed");
}

/// Bytes and words survive other threads' work, wherever they are; what is dropped on another
/// thread goes back to its slab.
#[pumice_test_macros::test]
fn packed_bytes_across_threads() {
    const THREADS: u64 = 4;
    const BYTES_EACH: usize = 8 << 20;
    let check = |bytes: &BlockBytes, seed: u64| {
        let mut rng = Rng::new(seed);
        assert!(bytes.words().iter().all(|word| *word == rng.next_u64()), "seed {seed}");
        assert!(bytes.iter().all(|byte| *byte == seed as u8), "seed {seed}");
    };
    let make = |seed: u64| {
        let mut rng = Rng::new(seed);
        let words: Vec<u64> = (0..seed % 100).map(|_| rng.next_u64()).collect();
        BlockBytes::packed(
            &words,
            &vec![seed as u8; 1 + (seed * 7919 % 20_000) as usize],
            !seed.is_multiple_of(8),
        )
    };
    let inboxes: [Mutex<Vec<(u64, BlockBytes)>>; THREADS as usize] = Default::default();
    thread::scope(|scope| {
        for t in 0..THREADS {
            let (own, next) = (&inboxes[t as usize], &inboxes[(t + 1) as usize % inboxes.len()]);
            scope.spawn(move || {
                let mut bytes = 0;
                for i in 0.. {
                    let seed = i * THREADS + t;
                    let block = make(seed);
                    bytes += block.memory_bytes();
                    check(&block, seed);
                    next.lock().push((seed, block));
                    if i % 64 == 0 || bytes > BYTES_EACH {
                        let received = mem::take(&mut *own.lock());
                        received.iter().for_each(|(seed, block)| check(block, *seed));
                    }
                    if bytes > BYTES_EACH {
                        break;
                    }
                }
            });
        }
    });
    for (seed, block) in inboxes.iter().flat_map(|inbox| mem::take(&mut *inbox.lock())) {
        check(&block, seed);
    }
}

/// Bytes of a `Vec` are that buffer; packed ones are a copy, and say what they take.
#[pumice_test_macros::test]
fn a_vec_stays_what_it_was() {
    let mut buffer = Vec::with_capacity(1000);
    buffer.extend_from_slice(b"block");
    let at = buffer.as_ptr();
    let bytes = BlockBytes::from(buffer);
    assert_eq!((&*bytes, bytes.words().len(), bytes.memory_bytes()), (&b"block"[..], 0, 1000));
    let buffer = bytes.into_vec().unwrap();
    assert_eq!((buffer.as_ptr(), buffer.capacity(), &*buffer), (at, 1000, &b"block"[..]));

    let packed = BlockBytes::packed(&[1, u64::MAX], b"block", true);
    assert_eq!((packed.words(), &*packed), (&[1, u64::MAX][..], &b"block"[..]));
    assert_eq!(packed.memory_bytes(), size_class::rounded(5 + 16));
    assert!(packed.into_vec().is_none());
    assert!(BlockBytes::packed(&[], b"", false).is_empty());
    // Those of no `Vec` need to be aligned for words.
    assert!(BlockBytes::default().words().is_empty());
}

/// A copy is made where it costs no more memory, or gives much.
#[pumice_test_macros::test]
fn large_bytes_are_copied_for_a_reason() {
    let bytes = |len: usize, capacity: usize| {
        let mut buffer = Vec::with_capacity(capacity);
        buffer.resize(len, 7);
        BlockBytes::from(buffer)
    };
    assert!(bytes(4000, 4000).is_worth_packing(0));
    assert!(!bytes(1 << 20, 1 << 20).is_worth_packing(WORDS_MIN - 1));
    assert!(bytes(1 << 20, 1 << 20).is_worth_packing(WORDS_MIN));
    assert!(bytes(1 << 20, 2 << 20).is_worth_packing(0));
}
