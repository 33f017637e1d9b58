//! The benchmark `replay`: repeats the calls of a trace at their times.
//!
//! Each of `trace_replay_threads` workers makes its share, call by call in turn; with one the order
//! is that of the trace. A call that comes late is made at once.

use std::time::Duration;

use super::engine::{BenchDb, Cursor, Reader, Result, Writer};
use super::stats::Operation;
use super::trace::{Call, Recorded};
use super::worker::Worker;
use pumice_port::thread;
use pumice_port::time::now_micros;

/// One worker's share.
///
/// # Errors
/// The trace cannot be read; a call failed.
pub fn run<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let shared = worker.shared;
    let (flags, plan) = (&shared.flags, &shared.plan);
    let recorded = Recorded::read(&flags.trace_file)?;
    let workers = shared.workers.max(1);
    let start = now_micros();
    let (mut writer, mut reader) = (shared.db.writer(plan.write), shared.db.reader(&plan.read));
    for (number, call) in recorded.calls().enumerate() {
        let (micros, call) = call.map_err(failed)?;
        if number % workers != worker.index {
            continue;
        }
        let due = due(start, micros, flags.trace_replay_fast_forward);
        if let Some(early @ 1..) = due.checked_sub(now_micros()) {
            thread::sleep(Duration::from_micros(early));
        }
        let operation = make(&*shared.db, (&mut writer, &mut reader), worker, &call);
        worker.finished(1, operation.map_err(failed)?);
    }
    if worker.index == 0 {
        println!("Replay completed from trace_file: {}", flags.trace_file.display());
    }
    Ok(())
}

/// When a call is made that came `micros` after the beginning. A damaged trace may say anything.
fn due(start: u64, micros: u64, speed: f64) -> u64 {
    start.saturating_add((micros as f64 / speed) as u64)
}

fn failed(error: String) -> String {
    format!("Replay failed. Error: {error}")
}

fn make<D: BenchDb>(
    db: &D,
    (writer, reader): (&mut D::Writer, &mut D::Reader),
    worker: &Worker<'_, D>,
    call: &Call<'_>,
) -> Result<Operation> {
    let known = |family: u32| match (family as usize) < db.families() {
        true => Ok(family as usize),
        false => Err(format!("Corruption: Invalid Column Family ID {family}.")),
    };
    match call {
        Call::Write(batch) => {
            writer.write_encoded(batch)?;
            Ok(Operation::Write)
        }
        Call::Get(family, key) => {
            reader.select(known(*family)?);
            reader.get(key)?;
            Ok(Operation::Read)
        }
        Call::MultiGet(keys) => {
            for (family, key) in keys {
                reader.select(known(*family)?);
                reader.get(key)?;
            }
            Ok(Operation::Read)
        }
        Call::Seek { family, key, bounds, backwards } => {
            if known(*family)? != 0 {
                return Err("Not implemented: iterators of other column families".into());
            }
            let bounds = bounds.map(|bound| (!bound.is_empty()).then_some(bound));
            let mut cursor = db.cursor(&worker.shared.plan.read, bounds)?;
            match backwards {
                true => cursor.seek_for_prev(key)?,
                false => cursor.seek(key),
            }
            cursor.status()?;
            Ok(Operation::Seek)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::due;

    #[pumice_test_macros::test]
    fn no_time_in_a_trace_overflows() {
        assert_eq!(due(100, 50, 2.0), 125);
        assert_eq!(due(100, u64::MAX, 0.5), u64::MAX);
        assert_eq!(due(u64::MAX, 1, 1e-300), u64::MAX);
    }
}
