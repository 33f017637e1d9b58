//! Perf contexts, which are the calling thread's own.

use pumice::perf::{self, PerfLevel, PerfMetric};

use crate::ffi::call::{Result, missing};
use crate::ffi::env::Env;
use crate::ffi::into::New;
use crate::objects::Perf;

/// RocksDB counts from the start; the engine when it is asked to. A program that asked for nothing
/// is at `Uninitialized` here.
fn count() {
    if perf::level() == PerfLevel::Disable {
        perf::set_level(PerfLevel::EnableCount);
    }
}

/// The metric with one of these names.
///
/// # Errors
/// The handle is none of a perf context; NotSupported if the engine has no such metric.
pub fn metric(handle: i64, names: [&str; 2]) -> Result<i64> {
    crate::ffi::handle::read::<Perf>(handle)?;
    let found = names.iter().find_map(|name| PerfMetric::from_name(name));
    let found = found.ok_or_else(|| missing(names[0]))?;
    Ok(perf::context().get(found).cast_signed())
}

/// Java: RocksDB.getPerfContextNative
pub fn context(_env: Env<'_>) -> Result<New<Perf>> {
    count();
    Ok(New(Perf))
}

/// Java: RocksDB.setPerfLevel
pub fn set_level(_env: Env<'_>, number: i8) -> Result<()> {
    let level = u8::try_from(number).ok().and_then(PerfLevel::from_number);
    // Told apart from a thread that never chose: see `count`.
    let chosen = level.filter(|level| *level != PerfLevel::Disable);
    perf::set_level(chosen.unwrap_or(PerfLevel::Uninitialized));
    Ok(())
}

/// Java: RocksDB.getPerfLevelNative
pub fn level(_env: Env<'_>) -> Result<i8> {
    count();
    Ok(perf::level() as i8)
}

/// Java: PerfContext.reset
pub fn reset(_env: Env<'_>, _context: &Perf) -> Result<()> {
    count();
    perf::reset();
    Ok(())
}

/// Java: PerfContext.toString
pub fn text(_env: Env<'_>, _context: &Perf, exclude_zero: bool) -> Result<String> {
    Ok(perf::context().report(exclude_zero))
}
