//! What a call asks of the allocator once it is warm: a program that uses the system's allocator is
//! then as fast as one that brings its own.
//!
//! What the calling thread asks for is counted: jobs of the database go on beside it for as long as
//! the machine takes.
#![allow(clippy::unwrap_used, missing_docs)]

use std::cell::Cell;

use pumice::{Db, Options, ReadOptions};
use pumice_testkit::alloc::WatchingAllocator;

#[global_allocator]
static ALLOCATOR: WatchingAllocator = WatchingAllocator::telling(|| OWN.set(OWN.get() + 1));

pumice_port::worker_local! {
    /// Requests of this thread. Nothing makes or drops it, so that an allocator may use it.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

const CALLS: u32 = 2_000;

fn key(n: u32) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..4].copy_from_slice(&(n.wrapping_mul(0x9e37_79b1)).to_be_bytes());
    key
}

/// Requests of `CALLS` calls, after as many that are not counted.
fn requests(mut call: impl FnMut(u32)) -> usize {
    (0..CALLS).for_each(&mut call);
    let before = OWN.get();
    (CALLS..2 * CALLS).for_each(&mut call);
    OWN.get() - before
}

/// Requests of puts, of gets that find a key and that do not, and of moves of a cursor.
fn cost(db: &Db, flushed: bool) -> [(&'static str, usize); 4] {
    let put = requests(|n| db.put(key(n), [b'v'; 100]).unwrap());
    if flushed {
        db.flush().unwrap();
    }
    let get = requests(|n| assert_eq!(db.get(key(n)).unwrap().unwrap().len(), 100));
    let missed = requests(|n| assert!(db.get(key(n + 1_000_000)).unwrap().is_none()));
    let mut cursor = db.cursor_opt(&ReadOptions::default()).unwrap();
    cursor.seek_to_first();
    let next = requests(|_| match cursor.valid() {
        true => cursor.next(),
        false => cursor.seek_to_first(),
    });
    [("put", put), ("get", get), ("get of a missing key", missed), ("next", next)]
}

// Plain #[test]: a fiber does not stay on a thread.
#[test]
fn warm_calls_allocate_nothing() {
    for flushed in [false, true] {
        let dir = std::env::temp_dir().join(format!("pumice-allocations-{}", std::process::id()));
        let mut options = Options::default();
        options.db.create_if_missing = true;
        Db::destroy(&options, &dir).unwrap();
        let db = Db::open(&options, &dir).unwrap();
        for (call, requests) in cost(&db, flushed) {
            println!("{call}, from a table: {flushed}: {requests} in {CALLS}");
            // A part of the memtable now and then.
            assert!(requests < CALLS as usize / 100, "{call}: {requests} in {CALLS} calls");
        }
        db.close().unwrap();
        Db::destroy(&options, &dir).unwrap();
    }
}
