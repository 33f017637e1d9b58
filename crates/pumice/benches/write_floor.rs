//! Times what of a write only one task can do at a time: the queue, the log and the wake-ups.
//!
//! The batches hold log data alone, which enters the log and no memtable. Nanoseconds of wall time
//! per batch and the size of the groups, for each number of threads.
//! `cargo bench -p pumice --bench write_floor -- DIRECTORY [bytes of a batch] [batches]`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use pumice::{Db, Options, WriteBatch, WriteOptions};
use pumice_port::{thread, time};

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let Some(dir) = args.next() else { return println!("write_floor: no directory is named") };
    let bytes: usize = args.next().map_or(12_500, |arg| arg.parse().unwrap());
    let batches: usize = args.next().map_or(20_000, |arg| arg.parse().unwrap());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    for disable_wal in [true, false] {
        for threads in [1, 2, 4, 16, 64] {
            let db = Db::open(&options, &dir).unwrap();
            let start = time::now_nanos();
            thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        let write = WriteOptions { disable_wal, ..WriteOptions::default() };
                        let data = vec![7; bytes];
                        let mut batch = WriteBatch::new();
                        batch.put_log_data(&data);
                        (0..batches / threads)
                            .for_each(|_| db.write_opt(&write, &mut batch).unwrap());
                    });
                }
            });
            let nanos = (time::now_nanos() - start) as f64 / batches as f64;
            let groups = db.property("pumice.write-group-size").unwrap();
            let first = groups.lines().next().unwrap_or_default();
            println!("wal={} threads={threads} {nanos:.0} ns per batch; {first}", !disable_wal);
            db.close().unwrap();
            Db::destroy(&options, &dir).unwrap();
        }
    }
}
