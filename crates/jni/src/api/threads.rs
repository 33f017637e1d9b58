//! The threads of the pools, and names of what threads do. Which thread does what is not kept.

use jni_sys::jvalue;
use pumice::PoolPriority;
use pumice_binding::env::Env as Files;

use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::maps::put;

/// Java's numbers of operations.
const COMPACTION: i8 = 1;
const FLUSH: i8 = 2;

/// The operations of a thread have so many numbers.
const PROPERTIES: usize = 6;

/// Java: Env.getThreadList
pub fn list<'a>(env: Env<'a>, files: &Files) -> Result<Object<'a>> {
    const CLASS: &str = "org/rocksdb/ThreadStatus";
    let pools = [
        (0, PoolPriority::High),
        (1, PoolPriority::Low),
        (2, PoolPriority::User),
        (3, PoolPriority::Bottom),
    ];
    let threads: Vec<(i8, u64)> = pools
        .into_iter()
        .flat_map(|(kind, pool)| files.thread_ids(pool).into_iter().map(move |id| (kind, id)))
        .collect();
    let array = env.new_objects(CLASS, threads.len())?;
    for (at, (kind, id)) in threads.into_iter().enumerate() {
        env.frame(|| {
            let nameless = jvalue { l: Object::NULL.raw() };
            let arguments = [
                jvalue { j: id.cast_signed() },
                jvalue { b: kind },
                nameless,
                nameless,
                jvalue { b: 0 },
                jvalue { j: 0 },
                jvalue { b: 0 },
                jvalue { l: env.new_longs(&[0; PROPERTIES])?.raw() },
                jvalue { b: 0 },
            ];
            let signature = "(JBLjava/lang/String;Ljava/lang/String;BJB[JB)V";
            env.set_element(array, at, env.construct(CLASS, signature, &arguments)?)
        })?;
    }
    Ok(array)
}

/// The name behind Java's number; what is unknown has none.
fn name(names: &[&'static str], number: i8) -> Option<&'static str> {
    let found = usize::try_from(number).ok().and_then(|at| names.get(at).copied());
    found.filter(|name| !name.is_empty())
}

/// Java: ThreadStatus.getThreadTypeName
pub fn type_name(_env: Env<'_>, number: i8) -> Result<Option<&'static str>> {
    Ok(name(&["High Pri", "Low Pri", "User", "Bottom Pri"], number))
}

/// Java: ThreadStatus.getOperationName
pub fn operation_name(_env: Env<'_>, number: i8) -> Result<Option<&'static str>> {
    Ok(name(&["", "Compaction", "Flush", "DBOpen"], number))
}

/// Java: ThreadStatus.getOperationStageName
pub fn stage_name(_env: Env<'_>, number: i8) -> Result<Option<&'static str>> {
    const NAMES: [&str; 11] = [
        "",
        "FlushJob::Run",
        "FlushJob::WriteLevel0Table",
        "CompactionJob::Prepare",
        "CompactionJob::Run",
        "CompactionJob::ProcessKeyValueCompaction",
        "CompactionJob::Install",
        "CompactionJob::FinishCompactionOutputFile",
        "MemTableList::PickMemtablesToFlush",
        "MemTableList::RollbackMemtableFlush",
        "MemTableList::TryInstallMemtableFlushResults",
    ];
    Ok(name(&NAMES, number))
}

/// Java: ThreadStatus.getStateName
pub fn state_name(_env: Env<'_>, number: i8) -> Result<Option<&'static str>> {
    Ok(name(&["", "Mutex Wait"], number))
}

/// The properties of an operation, in their order.
fn properties(operation: i8) -> &'static [&'static str] {
    const OF_COMPACTION: [&str; 6] = [
        "JobID",
        "InputOutputLevel",
        "Manual/Deletion/Trivial",
        "TotalInputBytes",
        "BytesRead",
        "BytesWritten",
    ];
    match operation {
        COMPACTION => &OF_COMPACTION,
        FLUSH => &["JobID", "BytesMemtables", "BytesWritten"],
        _ => &[],
    }
}

/// Java: ThreadStatus.getOperationPropertyName
pub fn property_name(_env: Env<'_>, operation: i8, index: i32) -> Result<Option<&'static str>> {
    Ok(usize::try_from(index).ok().and_then(|at| properties(operation).get(at).copied()))
}

/// Java: ThreadStatus.interpretOperationProperties
pub fn interpret<'a>(env: Env<'a>, operation: i8, values: Vec<i64>) -> Result<Object<'a>> {
    let map = env.construct("java/util/HashMap", "()V", &[])?;
    let add = |name: &str, value: i64| -> Result<()> {
        let (name, value) =
            (env.new_text(name)?, env.construct("java/lang/Long", "(J)V", &[jvalue { j: value }])?);
        put(env, map, name, value)?;
        env.forget(name);
        env.forget(value);
        Ok(())
    };
    let flag = |value: i64, bit: u32| (value >> bit) & 1;
    for (name, value) in properties(operation).iter().zip(values) {
        match *name {
            "InputOutputLevel" => {
                add("BaseInputLevel", value >> 32)?;
                add("OutputLevel", value & 0xffff_ffff)?;
            }
            "Manual/Deletion/Trivial" => {
                for (name, bit) in [("IsManual", 1), ("IsDeletion", 2), ("IsTrivialMove", 3)] {
                    add(name, flag(value, bit))?;
                }
            }
            name => add(name, value)?,
        }
    }
    Ok(map)
}

/// Java: ThreadStatus.microsToStringNative
pub fn micros_text(_env: Env<'_>, micros: i64) -> Result<Option<String>> {
    // No time passed is no text.
    Ok((micros != 0).then(|| human(micros)))
}

fn human(micros: i64) -> String {
    const SECOND: i64 = 1_000_000;
    let seconds = |micros: i64| micros as f64 / 1e6;
    match micros {
        ..10_000 => format!("{micros} us"),
        10_000..10_000_000 => format!("{:.3} ms", micros as f64 / 1e3),
        10_000_000..60_000_000 => format!("{:.3} sec", seconds(micros)),
        _ => {
            let minutes = micros / (60 * SECOND);
            let rest = seconds(micros % (60 * SECOND));
            match minutes {
                ..60 => format!("{minutes:02}:{rest:.3} M:S"),
                _ => format!("{:02}:{:02}:{rest:.3} H:M:S", minutes / 60, minutes % 60),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rocksdb_does() {
        let texts = [
            (999, "999 us"),
            (12_345, "12.345 ms"),
            (9_999_999, "9999.999 ms"),
            (59_999_999, "60.000 sec"),
            (61_234_567, "01:1.235 M:S"),
            (3_600_000_000, "01:00:0.000 H:M:S"),
            (360_000_000_000, "100:00:0.000 H:M:S"),
        ];
        for (micros, text) in texts {
            assert_eq!(human(micros), text);
        }
    }

    #[test]
    fn numbers_without_a_name_have_none() {
        assert_eq!(name(&["", "one"], 0), None);
        assert_eq!(name(&["", "one"], 1), Some("one"));
        assert_eq!(name(&["", "one"], -1), None);
        assert_eq!(name(&["", "one"], 7), None);
    }
}
