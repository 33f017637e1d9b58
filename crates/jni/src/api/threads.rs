//! The threads of the pools with what they do, and names of that.

use jni_sys::jvalue;
use pumice::PoolPriority;
use pumice::stats::{
    JobStatus, THREAD_PROPERTIES, THREAD_STAGE_NAMES, ThreadOperation, micros_to_string,
    thread_list,
};
use pumice_binding::env::Env as Files;

use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::maps::put;

/// The operation with Java's number.
fn operation(number: i8) -> Option<ThreadOperation> {
    let all = [ThreadOperation::Compaction, ThreadOperation::Flush];
    all.into_iter().find(|operation| *operation as i8 == number)
}

/// Java: Env.getThreadList
pub fn list<'a>(env: Env<'a>, _files: &Files) -> Result<Object<'a>> {
    const CLASS: &str = "org/rocksdb/ThreadStatus";
    let threads = thread_list();
    let array = env.new_objects(CLASS, threads.len())?;
    for (at, thread) in threads.into_iter().enumerate() {
        let kind = match thread.thread_type {
            PoolPriority::High => 0,
            PoolPriority::Low => 1,
            PoolPriority::User => 2,
            PoolPriority::Bottom => 3,
        };
        let job = thread.job.as_ref();
        let name = |of: fn(&JobStatus) -> &str| -> Result<jvalue> {
            let text = job.map(|job| env.new_text(of(job))).transpose()?;
            Ok(jvalue { l: text.unwrap_or(Object::NULL).raw() })
        };
        let numbers = job.map_or([0; THREAD_PROPERTIES], |job| job.properties);
        env.frame(|| {
            let arguments = [
                jvalue { j: thread.thread_id.cast_signed() },
                jvalue { b: kind },
                name(|job| &job.db_name)?,
                name(|job| &job.cf_name)?,
                jvalue { b: job.map_or(0, |job| job.operation as i8) },
                jvalue { j: job.map_or(0, |job| job.elapsed_micros.cast_signed()) },
                jvalue { b: job.map_or(0, |job| job.stage as i8) },
                jvalue { l: env.new_longs(&numbers.map(u64::cast_signed))?.raw() },
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
    Ok(name(&THREAD_STAGE_NAMES, number))
}

/// Java: ThreadStatus.getStateName
pub fn state_name(_env: Env<'_>, number: i8) -> Result<Option<&'static str>> {
    Ok(name(&["", "Mutex Wait"], number))
}

/// Java: ThreadStatus.getOperationPropertyName
pub fn property_name(_env: Env<'_>, number: i8, index: i32) -> Result<Option<&'static str>> {
    let names = operation(number).map_or(&[][..], ThreadOperation::properties);
    Ok(usize::try_from(index).ok().and_then(|at| names.get(at).copied()))
}

/// Java: ThreadStatus.interpretOperationProperties
pub fn interpret<'a>(env: Env<'a>, number: i8, values: Vec<i64>) -> Result<Object<'a>> {
    let map = env.construct("java/util/HashMap", "()V", &[])?;
    let values: Vec<u64> = values.into_iter().map(i64::cast_unsigned).collect();
    let numbers = operation(number).map(|operation| operation.interpret(&values));
    for (name, number) in numbers.into_iter().flatten() {
        let number = jvalue { j: number.cast_signed() };
        let (name, value) =
            (env.new_text(name)?, env.construct("java/lang/Long", "(J)V", &[number])?);
        put(env, map, name, value)?;
        env.forget(name);
        env.forget(value);
    }
    Ok(map)
}

/// Java: ThreadStatus.microsToStringNative
pub fn micros_text(_env: Env<'_>, micros: i64) -> Result<Option<String>> {
    // No time passed is no text.
    Ok((micros != 0).then(|| micros_to_string(micros.cast_unsigned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_name_have_none() {
        assert_eq!(name(&["", "one"], 0), None);
        assert_eq!(name(&["", "one"], 1), Some("one"));
        assert_eq!(name(&["", "one"], -1), None);
        assert_eq!(name(&["", "one"], 7), None);
    }
}
