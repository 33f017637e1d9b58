//! Clocks.
//!
//! Durations and rates use the monotonic clock; only times that are displayed or stored use the
//! wall clock, which may jump. In a simulation both are virtual, and CPU time is the virtual time.
//! Thread safety: all functions may be called from anywhere.
//!
//! Invariants cited by unsafe blocks:
//! 1. `clock_gettime`, `getrusage`, `gmtime_r` and `localtime_r` write only the struct they are
//!    given, which is a live local of the right type, fully initialised by `zeroed` (all fields are
//!    integers or raw pointers).

use crate::{fiber, sim};
use std::mem::zeroed;

/// Call this in a loop that waits for another task without parking. In a simulation it lets the
/// other tasks run.
#[inline]
pub fn spin_loop() {
    if !sim::is_running() || !sim::yield_now() {
        std::hint::spin_loop();
    }
}

fn clock(id: libc::clockid_t) -> libc::timespec {
    // SAFETY: invariant 1. The clocks named in this file exist on every Linux.
    unsafe {
        let mut now: libc::timespec = zeroed();
        libc::clock_gettime(id, &mut now);
        now
    }
}

#[inline]
fn nanos(id: libc::clockid_t) -> u64 {
    let now = clock(id);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// The machine's own monotonic clock, also in a simulation.
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    nanos(libc::CLOCK_MONOTONIC)
}

/// Monotonic nanoseconds since some moment before the process started.
#[inline]
pub fn now_nanos() -> u64 {
    sim::clock_nanos().unwrap_or_else(monotonic_nanos)
}

/// Monotonic microseconds since some moment before the process started.
#[inline]
pub fn now_micros() -> u64 {
    now_nanos() / 1000
}

/// Seconds since 1970.
pub fn wall_seconds() -> u64 {
    match sim::wall_nanos() {
        Some(nanos) => nanos / 1_000_000_000,
        None => clock(libc::CLOCK_REALTIME).tv_sec as u64,
    }
}

/// Microseconds since 1970.
pub fn wall_micros() -> u64 {
    sim::wall_nanos().unwrap_or_else(|| nanos(libc::CLOCK_REALTIME)) / 1000
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_nanos() -> u64 {
    sim::clock_nanos().unwrap_or_else(|| nanos(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// CPU time of the calling task, in nanoseconds since some moment: for a fiber, its thread's time
/// minus what the thread used while the fiber was away and a [`CpuWatch`](fiber::CpuWatch) was
/// alive.
pub fn task_cpu_nanos() -> u64 {
    thread_cpu_nanos().wrapping_sub(fiber::cpu::away_nanos())
}

/// CPU time of the process, user and system, in microseconds.
pub fn process_cpu_micros() -> u64 {
    let usage = resource_usage();
    usage.user_micros + usage.system_micros
}

/// The process's resource usage so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUsage {
    /// CPU time in user mode, in microseconds.
    pub user_micros: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_micros: u64,
    /// Largest resident set so far, in bytes.
    pub max_resident_bytes: u64,
    /// Involuntary switches, forced by the scheduler.
    pub involuntary_switches: u64,
    /// Voluntary switches: the process waited.
    pub voluntary_switches: u64,
}

/// The process's resource usage so far.
pub fn resource_usage() -> ResourceUsage {
    if let Some(nanos) = sim::clock_nanos() {
        return ResourceUsage { user_micros: nanos / 1000, ..ResourceUsage::default() };
    }
    // SAFETY: invariant 1.
    let raw = unsafe {
        let mut raw: libc::rusage = zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut raw);
        raw
    };
    let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    ResourceUsage {
        user_micros: micros(raw.ru_utime),
        system_micros: micros(raw.ru_stime),
        max_resident_bytes: raw.ru_maxrss as u64 * 1024,
        involuntary_switches: raw.ru_nivcsw as u64,
        voluntary_switches: raw.ru_nvcsw as u64,
    }
}

/// A calendar time in the local time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// Year of the Christian era.
    pub year: i32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 60.
    pub second: u32,
    /// 0 (Sunday) to 6.
    pub weekday: u32,
}

/// The calendar time of `seconds` since 1970.
pub fn local_time(seconds: u64) -> LocalTime {
    let time = seconds as libc::time_t;
    // SAFETY: invariant 1; `time` is a live local.
    let tm = unsafe {
        let mut tm: libc::tm = zeroed();
        if sim::is_running() {
            // The machine's time zone must not affect the results of a seed.
            libc::gmtime_r(&time, &mut tm);
        } else {
            libc::localtime_r(&time, &mut tm);
        }
        tm
    };
    LocalTime {
        year: tm.tm_year + 1900,
        month: tm.tm_mon as u32 + 1,
        day: tm.tm_mday as u32,
        hour: tm.tm_hour as u32,
        minute: tm.tm_min as u32,
        second: tm.tm_sec as u32,
        weekday: tm.tm_wday as u32,
    }
}

/// `2026/11/21-19:55:02.123456`: a wall time in microseconds as the info log writes it.
pub fn local_time_string(wall_micros: u64) -> String {
    let t = local_time(wall_micros / 1_000_000);
    let mut text = String::with_capacity("2026/11/21-19:55:02.123456".len());
    let mut put = |value: u64, width: u32, after: &str| {
        put_digits(&mut text, value, width);
        text.push_str(after);
    };
    put(u64::from(t.year.unsigned_abs()), 4, "/");
    put(u64::from(t.month), 2, "/");
    put(u64::from(t.day), 2, "-");
    put(u64::from(t.hour), 2, ":");
    put(u64::from(t.minute), 2, ":");
    put(u64::from(t.second), 2, ".");
    put(wall_micros % 1_000_000, 6, "");
    text
}

/// Appends `value` with at least `width` digits: each line of the info log has a time, and a format
/// string with seven widths shows in profiles.
fn put_digits(text: &mut String, value: u64, width: u32) {
    let mut power = 10u64.pow(width - 1);
    while value / power >= 10 {
        power *= 10;
    }
    while power > 0 {
        text.push(char::from(b'0' + (value / power % 10) as u8));
        power /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_forward_and_agree() {
        let start = now_nanos();
        let cpu = thread_cpu_nanos();
        let mut sum = 0u64;
        while thread_cpu_nanos() - cpu < 1_000_000 {
            sum = sum.wrapping_mul(31).wrapping_add(now_nanos());
        }
        assert!(now_nanos() - start >= 1_000_000, "{sum}");
        assert!(wall_micros() / 1_000_000 >= wall_seconds() - 1);
        assert!(process_cpu_micros() >= 1000);
    }

    #[test]
    fn local_time_string_has_the_info_log_form() {
        let text = local_time_string(1_700_000_000_000_042);
        assert_eq!(text.len(), "2026/11/21-19:55:02.123456".len());
        assert!(text.starts_with("2023/11/1") && text.ends_with(".000042"), "{text}");
        for micros in [0, 951_782_399_999_999, 4_102_444_800_100_000, 400_000_000_000_000_000] {
            let t = local_time(micros / 1_000_000);
            let day = format!("{:04}/{:02}/{:02}", t.year, t.month, t.day);
            let hour = format!("{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
            let wanted = format!("{day}-{hour}.{:06}", micros % 1_000_000);
            assert_eq!(local_time_string(micros), wanted);
        }
    }
}
