//! Times memtable operations at one million 16-byte keys with 100-byte values. CPU time of the
//! calling thread, best of the rounds; prints a hash of what was read, so nothing is optimised
//! away. `cargo run --release -p pumice-memtable --example memtable_bench [entries] [rounds]`

use std::sync::Arc;

use pumice_base::random::Rng;
use pumice_base::{InternalIterator, UserKey, ValueType};
use pumice_memtable::{MemTable, MemTableOptions, MemTableRep};
use pumice_port::{thread, time};

fn new_table(rep: MemTableRep) -> Arc<MemTable> {
    let options = MemTableOptions { rep, ..MemTableOptions::new(1 << 30) };
    MemTable::new(options, 1, 0)
}

/// db_bench's keys: eight big-endian bytes, then '0's.
fn key(n: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

fn shuffled(entries: u64) -> Vec<u64> {
    let mut rng = Rng::new(42);
    let mut order: Vec<u64> = (0..entries).collect();
    for i in (1..entries).rev() {
        order.swap(i as usize, rng.uniform(i + 1) as usize);
    }
    order
}

/// Nanoseconds of CPU per operation.
fn timed(operations: u64, f: impl FnOnce()) -> f64 {
    let start = time::thread_cpu_nanos();
    f();
    (time::thread_cpu_nanos() - start) as f64 / operations as f64
}

fn fill(table: &MemTable, order: &[u64]) {
    let value = [7u8; 100];
    for (seq, &n) in order.iter().enumerate() {
        table.add(seq as u64 + 1, ValueType::Value, &key(n), &value).expect("keys are distinct");
    }
}

/// Runs `f(thread)` on two threads and returns the larger of their times per operation.
fn on_two(operations: u64, f: impl Fn(usize) + Send + Sync + 'static) -> f64 {
    let f = Arc::new(f);
    let threads: Vec<_> = (0..2)
        .map(|t| {
            let f = Arc::clone(&f);
            thread::spawn("bench", move || timed(operations / 2, || f(t)))
        })
        .collect();
    threads.into_iter().map(|t| t.join().expect("no panic")).fold(0.0, f64::max)
}

fn eighth_and_tenth(iter: &impl InternalIterator) -> u64 {
    u64::from(iter.key().as_bytes()[7]) + u64::from(iter.value()[9])
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    let entries = args.next().unwrap_or(1_000_000);
    let rounds = args.next().unwrap_or(3);
    let random = Arc::new(shuffled(entries));
    let sequential: Vec<u64> = (0..entries).collect();
    let mut best: Vec<(&str, f64)> = Vec::new();
    let mut report = |name, ns: f64| match best.iter_mut().find(|(known, _)| *known == name) {
        Some((_, least)) => *least = least.min(ns),
        None => best.push((name, ns)),
    };
    let mut hash = 0u64;
    for _ in 0..rounds {
        let table = new_table(MemTableRep::SKIP_LIST);
        report("seq insert", timed(entries, || fill(&table, &sequential)));
        drop(table);

        let table = new_table(MemTableRep::Vector { reserve: 0 });
        report("vector random insert", timed(entries, || fill(&table, &random)));
        table.mark_immutable();
        report("vector sort", timed(entries, || table.iter().seek_to_first()));
        drop(table);

        let table = new_table(MemTableRep::SKIP_LIST);
        report("random insert", timed(entries, || fill(&table, &random)));
        report(
            "random get",
            timed(entries, || {
                for &n in random.iter() {
                    table.get_with(UserKey::new(&key(n)), u64::MAX >> 8, |seq, _, value| {
                        hash = hash.wrapping_mul(31) ^ seq ^ u64::from(value[0]);
                        false
                    });
                }
            }),
        );
        report(
            "iterate",
            timed(entries, || {
                let mut iter = table.iter();
                iter.seek_to_first();
                while iter.valid() {
                    hash = hash.wrapping_add(eighth_and_tenth(&iter));
                    iter.next();
                }
            }),
        );
        let (shared, order) = (Arc::clone(&table), Arc::clone(&random));
        let get = on_two(entries, move |t| {
            for &n in order.iter().skip(t).step_by(2) {
                let mut seen = false;
                shared.get_with(UserKey::new(&key(n)), u64::MAX >> 8, |_, _, _| {
                    seen = true;
                    false
                });
                assert!(seen, "every key was inserted");
            }
        });
        report("random get, 2 threads, each", get);
        println!("memory per entry: {:.1} bytes", table.memory_bytes() as f64 / entries as f64);
        drop(table);

        let table = new_table(MemTableRep::SKIP_LIST);
        let (shared, order) = (Arc::clone(&table), Arc::clone(&random));
        let insert = on_two(entries, move |t| {
            let value = [7u8; 100];
            for (seq, &n) in order.iter().enumerate().skip(t).step_by(2) {
                shared
                    .add_concurrent(seq as u64 + 1, ValueType::Value, &key(n), &value)
                    .expect("keys are distinct");
            }
        });
        report("random concurrent insert, 2 threads, each", insert);
        assert_eq!(table.num_entries(), entries);
    }
    for (name, ns) in best {
        println!("{name:42} {ns:8.1} ns");
    }
    println!("hash {hash:016x}");
}
