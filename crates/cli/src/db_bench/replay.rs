//! The benchmark `replay`: repeats the calls of a trace at their times.
//!
//! Each of `trace_replay_threads` workers makes its share, call by call in turn; with one the order
//! is that of the trace. A call that comes late is made at once.

use std::time::Duration;

use super::engine::{BenchDb, Cursor, Reader, Result, Writer};
use super::stats::Operation;
use super::worker::Worker;
use pumice::PosixFs;
use pumice::trace::{FileTraceReader, QueryTraceReader, TraceQuery};
use pumice_port::thread;
use pumice_port::time::now_micros;

/// One worker's share.
///
/// # Errors
/// The trace cannot be read; a call failed.
pub fn run<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let shared = worker.shared;
    let (flags, plan) = (&shared.flags, &shared.plan);
    let file = FileTraceReader::open(PosixFs::shared(), &flags.trace_file);
    let file = file.map_err(|error| {
        format!("Encountered an error creating a TraceReader from the trace file. Error: {error}")
    })?;
    let mut recorded = QueryTraceReader::new(Box::new(file))
        .map_err(|error| format!("Prepare for replay failed. Error: {error}"))?;
    let workers = shared.workers.max(1);
    let start = now_micros();
    let (mut writer, mut reader) = (shared.db.writer(plan.write), shared.db.reader(&plan.read));
    let began = recorded.began_micros();
    for number in 0.. {
        let next = recorded.next().map_err(|error| failed(error.to_string()))?;
        let Some(record) = next else { break };
        if number % workers != worker.index {
            continue;
        }
        let due = due(start, record.micros.saturating_sub(began), flags.trace_replay_fast_forward);
        if let Some(early @ 1..) = due.checked_sub(now_micros()) {
            thread::sleep(Duration::from_micros(early));
        }
        let operation = make(&*shared.db, (&mut writer, &mut reader), worker, &record.query);
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
    query: &TraceQuery,
) -> Result<Operation> {
    let known = |family: u32| match (family as usize) < db.families() {
        true => Ok(family as usize),
        false => Err(format!("Corruption: Invalid Column Family ID {family}.")),
    };
    match query {
        TraceQuery::Write(batch) => {
            writer.write_encoded(batch)?;
            Ok(Operation::Write)
        }
        TraceQuery::Get { family, key } => {
            reader.select(known(*family)?);
            reader.get(key)?;
            Ok(Operation::Read)
        }
        TraceQuery::MultiGet(keys) => {
            for (family, key) in keys {
                reader.select(known(*family)?);
                reader.get(key)?;
            }
            Ok(Operation::Read)
        }
        TraceQuery::Seek { family, key, bounds, for_prev } => {
            if known(*family)? != 0 {
                return Err("Not implemented: iterators of other column families".into());
            }
            let [lower, upper] = bounds;
            let bounds = [lower, upper].map(|key| (!key.is_empty()).then_some(&key[..]));
            let mut cursor = db.cursor(&worker.shared.plan.read, bounds)?;
            match for_prev {
                true => cursor.seek_for_prev(key)?,
                false => cursor.seek(key),
            }
            cursor.status()?;
            Ok(Operation::Seek)
        }
        _ => Err("Not implemented: a call that this benchmark does not know".into()),
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
