//! `--thread_status_per_interval`: the threads of the pools and what they do, as RocksDB's db_bench
//! prints them.
//!
//! Thread safety: a pure function.

use pumice::PoolPriority;
use pumice::stats::{ThreadStatus, micros_to_string};
use std::fmt::Write;

/// A heading and a line for each thread.
pub fn text(threads: &[ThreadStatus]) -> String {
    let mut text = format!(
        "\n{:>18} {:>10} {:>12} {:>20} {:>13} {:>45} {:>12} OperationProperties\n",
        "ThreadID", "ThreadType", "cfName", "Operation", "ElapsedTime", "Stage", "State",
    );
    for thread in threads {
        let kind = match thread.thread_type {
            PoolPriority::High => "High Pri",
            PoolPriority::Low => "Low Pri",
            PoolPriority::User => "User",
            PoolPriority::Bottom => "Bottom Pri",
        };
        let job = thread.job.as_ref();
        // Nobody notes that a thread waits for a mutex: there is no state.
        let written = write!(
            text,
            "{:>18} {kind:>10} {:>12} {:>20} {:>13} {:>45} {:>12}",
            thread.thread_id,
            job.map_or("", |job| &job.cf_name),
            job.map_or("", |job| job.operation.name()),
            job.map_or_else(String::new, |job| micros_to_string(job.elapsed_micros)),
            job.map_or("", |job| job.stage.name()),
            "",
        );
        written.expect("a string takes all");
        for (name, number) in job.iter().flat_map(|job| job.operation.interpret(&job.properties)) {
            write!(text, " {name} {number} |").expect("a string takes all");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice::stats::{JobStatus, ThreadOperation, ThreadStage};

    // Plain #[test]: nothing in it waits.
    #[test]
    fn lines_are_rocksdbs() {
        let job = JobStatus {
            db_name: "/db".into(),
            cf_name: "default".into(),
            operation: ThreadOperation::Flush,
            elapsed_micros: 12_345,
            stage: ThreadStage::FlushWriteL0,
            properties: [3, 65_536, 4096, 0, 0, 0],
        };
        let threads = [
            ThreadStatus { thread_id: 42, thread_type: PoolPriority::High, job: Some(job) },
            ThreadStatus { thread_id: 43, thread_type: PoolPriority::Low, job: None },
        ];
        let lines = [
            "",
            concat!(
                "          ThreadID ThreadType       cfName            Operation   ",
                "ElapsedTime                                         Stage        S",
                "tate OperationProperties",
            ),
            concat!(
                "                42   High Pri      default                Flush   ",
                "  12.345 ms                    FlushJob::WriteLevel0Table         ",
                "     BytesMemtables 65536 | BytesWritten 4096 | JobID 3 |",
            ),
            concat!(
                "                43    Low Pri                                     ",
                "                                                                  ",
                "    ",
            ),
        ];
        assert_eq!(text(&threads).split('\n').collect::<Vec<_>>(), [&lines[..], &[""]].concat());
    }
}
