//! `--background_readers`: point reads during a benchmark, at a fixed rate, timed separately.
//!
//! Each reader has its own evenly spaced arrivals. A latency counts from the arrival, so that reads
//! delayed by a slow one are slow too.
//!
//! Thread safety: started and finished by one thread; the readers share the database only.

use super::engine::{BenchDb, Reader, Result};
use super::worker::Plan;
use super::workload::KeyMaker;
use pumice_base::histogram::Histogram;
use pumice_base::random::Rng;
use pumice_port::thread::{JoinHandle, sleep, try_spawn};
use pumice_port::time::now_micros;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Readers that run until they are finished.
pub struct BackgroundReaders {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Histogram>>>,
}

impl BackgroundReaders {
    /// Starts `count` readers of `db`, each with `per_second` (above 0) reads a second of random
    /// keys.
    ///
    /// # Errors
    /// A thread could not be started; those already started are stopped.
    pub fn start<D: BenchDb>(
        db: &Arc<D>,
        plan: &Plan,
        keys: &KeyMaker,
        (count, per_second): (usize, u64),
        seed: u64,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut readers = BackgroundReaders { stop: stop.clone(), threads: Vec::new() };
        for number in 0..count {
            let (db, plan, keys, stop) = (db.clone(), plan.clone(), keys.clone(), stop.clone());
            let rng = Rng::new(seed + number as u64);
            let body = move || read_until(&*db, &plan, keys, rng, per_second, &stop);
            match try_spawn("reader", body) {
                Ok(thread) => readers.threads.push(thread),
                Err(error) => {
                    readers.finish()?;
                    return Err(format!(
                        "only {number} of {count} background readers could be started: {error}"
                    ));
                }
            }
        }
        Ok(readers)
    }

    /// Stops them; returns the latencies of all, in microseconds.
    ///
    /// # Errors
    /// A read failed.
    pub fn finish(self) -> Result<Histogram> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Histogram::new();
        for thread in self.threads {
            all.merge(&thread.join().map_err(|error| error.to_string())??);
        }
        Ok(all)
    }
}

fn read_until<D: BenchDb>(
    db: &D,
    plan: &Plan,
    mut keys: KeyMaker,
    mut rng: Rng,
    per_second: u64,
    stop: &AtomicBool,
) -> Result<Histogram> {
    let mut reader = db.reader(&plan.read);
    let mut latencies = Histogram::new();
    let start = now_micros();
    for arrived in 0u64.. {
        let due = start + arrived * 1_000_000 / per_second;
        let now = now_micros();
        if now < due {
            sleep(Duration::from_micros(due - now));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        reader.get(keys.key(rng.uniform(plan.keys)))?;
        latencies.add(now_micros() - due);
    }
    Ok(latencies)
}
