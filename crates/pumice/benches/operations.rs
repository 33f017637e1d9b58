//! Operations of one task on a database that fits its memtable, for counting their instructions.
//!
//! Keys have 16 bytes and values 100; the log is written, nothing is flushed. `cargo bench -p
//! pumice --bench operations -- DIRECTORY OPERATION COUNT`, with one of
//!
//! * `put`: keys in a random order, so a search of the memtable is a part of each
//! * `append`: ascending keys, whose place in the memtable is next to the one before
//! * `get` and `seek`: one of 20,000 keys
//! * `next`: the key after the last one, of 20,000
//!
//! The instructions of an operation are the difference of two runs, for example
//! `for n in 1000 41000; do valgrind --tool=callgrind --callgrind-out-file=/dev/null BINARY
//! DIRECTORY put $n; done`, divided by 40,000. They are those of user space alone.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use pumice::{Db, Options, ReadOptions, WriteOptions};

/// How many keys there are to read.
const KEYS: u64 = 20_000;

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// All numbers below 2^48 in a fixed order.
fn shuffled(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & ((1 << 48) - 1)
}

/// Returns a number that depends on everything that was read.
fn run(db: &Db, operation: &str, count: u64) -> usize {
    let (write, read) = (WriteOptions::default(), ReadOptions::default());
    let put = |number| db.put_opt(&write, &key(number), &[b'v'; 100]).unwrap();
    if matches!(operation, "get" | "seek" | "next") {
        (0..KEYS).map(shuffled).for_each(put);
    }
    let mut cursor = db.cursor_opt(&read).unwrap();
    let wanted = |number| key(shuffled(number * 7919 % KEYS));
    let mut seek = |number| {
        cursor.seek(&wanted(number));
        cursor.key().unwrap().len()
    };
    match operation {
        "put" => (0..count).map(shuffled).for_each(put),
        "append" => (0..count).for_each(put),
        "get" => {
            let get = |number| db.get_opt(&read, &wanted(number)).unwrap().unwrap().len();
            return (0..count).map(get).sum();
        }
        "seek" => return (0..count).map(&mut seek).sum(),
        "next" => {
            cursor.seek_to_first();
            let mut next = |_| {
                match cursor.valid() {
                    true => cursor.next(),
                    false => cursor.seek_to_first(),
                }
                cursor.key().map_or(0, <[u8]>::len)
            };
            return (0..count).map(&mut next).sum();
        }
        _ => panic!("no operation {operation}"),
    }
    0
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let Some(dir) = args.next() else { return println!("operations: no directory is named") };
    let operation = args.next().unwrap_or_else(|| "put".to_string());
    let count = args.next().map_or(1_000, |arg| arg.parse().unwrap());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir).unwrap();
    println!("{operation} x {count}: {}", run(&db, &operation, count));
    db.close().unwrap();
    Db::destroy(&options, &dir).unwrap();
}
