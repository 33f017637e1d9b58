//! `timeseries`: one worker writes pairs of an id and a time, the others read all times of random
//! ids, or with `--expire_style=delete` some of them delete what has become too old. With
//! `--expire_style=compaction_filter` compactions remove it, by [`is_expired`].
//!
//! A key begins with the id in 8 bytes, then the time in 8 bytes, both big-endian.
//!
//! Thread safety: the workers share the time, which the writer alone moves.

use super::engine::{BenchDb, Cursor, Result, Writer};
use super::stats::Operation;
use super::worker::{Worker, during, user_limiter, wait_for};
use std::sync::atomic::Ordering;

const ID_LEN: usize = 8;

/// One worker's share: the first writes.
pub fn run<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let flags = &worker.shared.flags;
    let deleters = usize::try_from(flags.num_deletion_threads).unwrap_or(0);
    match worker.index {
        0 => write(worker),
        index if flags.expire_style == "delete" && index <= deleters => follow(worker, true),
        _ => follow(worker, false),
    }
}

fn write<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let shared = worker.shared;
    let (plan, flags) = (&shared.plan, &shared.flags);
    worker.stats.exclude();
    let rate = flags.benchmark_write_rate_limit;
    let limiter = (rate > 0).then(|| user_limiter(rate));
    let ids = u64::try_from(flags.key_id_range).unwrap_or(0).max(1);
    let mut writer = shared.db.writer(plan.write);
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let mut limit = worker.limit(plan.writes);
    let mut key = vec![0; plan.key_size];
    let mut bytes = 0u64;
    while !limit.reached(1) {
        key.copy_from_slice(keys.key(worker.rng.uniform(ids)));
        let time = shared.time.fetch_add(1, Ordering::Relaxed);
        let end = (ID_LEN + 8).min(key.len());
        key[ID_LEN..end].copy_from_slice(&time.to_be_bytes()[8 - (end - ID_LEN)..]);
        let value = values.value();
        during("put", writer.put(&key, value))?;
        let len = (key.len() + value.len()) as u64;
        bytes += len;
        worker.finished(1, Operation::Write);
        if let Some(limiter) = &limiter {
            wait_for(limiter, len);
        }
    }
    worker.stats.add_bytes(bytes);
    worker.stats.stop();
    print!("{}", worker.stats.result("timeseries write"));
    Ok(())
}

/// Reads, or deletes what is too old, until the writer is done.
fn follow<D: BenchDb>(worker: &mut Worker<'_, D>, delete: bool) -> Result<()> {
    let shared = worker.shared;
    let (plan, flags) = (&shared.plan, &shared.flags);
    let ids = u64::try_from(flags.key_id_range).unwrap_or(0).max(1);
    let mut writer = shared.db.writer(plan.write);
    let mut keys = worker.keys();
    let (mut read, mut found, mut bytes) = (0u64, 0u64, 0u64);
    while shared.finished.load(Ordering::Acquire) == 0 {
        let mut key = keys.key(worker.rng.uniform(ids)).to_vec();
        // RocksDB's compares with the whole key of time 0, and so finds no other time.
        key.truncate(ID_LEN);
        let mut cursor = shared.db.cursor(&plan.read, [None, None])?;
        cursor.seek(&key);
        read += 1;
        found += u64::from(cursor.valid() && cursor.key().starts_with(&key));
        while cursor.valid() && cursor.key().starts_with(&key) {
            bytes += cursor.key().len() as u64;
            if !delete {
                bytes += std::hint::black_box(cursor.value()).len() as u64;
                worker.finished(1, Operation::Read);
            } else if is_expired(
                cursor.key(),
                shared.time.load(Ordering::Relaxed),
                flags.time_range,
            ) {
                during("del", writer.delete(cursor.key()))?;
                worker.finished(1, Operation::Delete);
            } else {
                break;
            }
            cursor.next();
        }
        during("iterator", cursor.status())?;
        worker.limit_read(0, 1);
        // On a fiber: the writer needs its turn even if nothing is found.
        pumice_port::fiber::maybe_yield();
    }
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("({found} of {read} found)"));
    Ok(())
}

/// `key` has a time that is more than `range` before `now`.
pub fn is_expired(key: &[u8], now: u64, range: u64) -> bool {
    let time = key.get(ID_LEN..).and_then(|rest| rest.first_chunk::<8>());
    time.is_some_and(|bytes| now.saturating_sub(u64::from_be_bytes(*bytes)) > range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn what_is_older_than_the_range_is_expired() {
        let key = [&7u64.to_be_bytes()[..], &100u64.to_be_bytes()].concat();
        assert!(!is_expired(&key, 150, 50) && is_expired(&key, 151, 50));
        assert!(!is_expired(&key[..15], 151, 50) && !is_expired(b"", 151, 50));
    }
}
