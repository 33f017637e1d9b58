//! How much deferrable compactions may write so that reads stay within their target.
//!
//! After each second in which more than one read in a hundred was slow, the rate of these
//! compactions falls by 30 %; otherwise it rises by 5 %, if they used their share, until there is
//! no limit. So reads settle where about one in a hundred is slow, and as much is compacted as that
//! leaves. The caller sets the minimum: the debt has to be paid, however slow reads are.
//!
//! Thread safety: plain data.

use super::rates::Counter;

/// A window lasts this many seconds and sees at least this many reads, or lasts four times as long.
const WINDOW_SECONDS: f64 = 1.0;
const WINDOW_READS: f64 = 100.0;
const WINDOWS_MAX: f64 = 4.0;
/// Share of reads that may be slow; a single one in a window never counts.
const SLOW_SHARE: f64 = 0.01;
/// Factor of the rate after a window in which reads were slow.
const FALL: f64 = 0.7;
/// Factor of the rate after any other window.
const RISE: f64 = 1.05;
/// Compactions that use less than this share of the rate are not held back by it.
const USED: f64 = 0.5;
/// Beyond this many times the rate of the device there is no limit.
const FREE: f64 = 1.25;
/// Writes below this share of the device's rate are not the cause of slow reads.
const INNOCENT: f64 = 0.02;

/// Input of a tick: seconds since the last one, totals, and the device's rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadLook {
    pub seconds: f64,
    pub reads: f64,
    pub slow_reads: f64,
    /// Bytes written by compactions that can wait.
    pub written: f64,
    /// Bytes a second; 0 if unknown.
    pub device_rate: f64,
}

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadGuard {
    reads: Counter,
    slow_reads: Counter,
    written: Counter,
    window: Window,
    rate: Option<f64>,
}

#[derive(Clone, Debug, Default)]
struct Window {
    seconds: f64,
    reads: f64,
    slow: f64,
    written: f64,
}

impl Window {
    fn is_whole(&self) -> bool {
        self.seconds >= WINDOW_SECONDS * WINDOWS_MAX
            || (self.seconds >= WINDOW_SECONDS && self.reads >= WINDOW_READS)
    }

    fn is_slow(&self) -> bool {
        self.slow > (SLOW_SHARE * self.reads).max(1.0)
    }
}

impl ReadGuard {
    /// What may be written from now on, bytes a second; None for no limit.
    pub fn tick(&mut self, look: &ReadLook) -> Option<f64> {
        let window = &mut self.window;
        window.seconds += look.seconds;
        window.reads += self.reads.advance(look.reads);
        window.slow += self.slow_reads.advance(look.slow_reads);
        window.written += self.written.advance(look.written);
        if window.is_whole() {
            let window = std::mem::take(window);
            self.rate = self.next_rate(&window, look.device_rate);
        }
        self.rate
    }

    fn next_rate(&self, window: &Window, device_rate: f64) -> Option<f64> {
        let written = window.written / window.seconds;
        if window.is_slow() {
            let now = self.rate.unwrap_or(device_rate);
            return if written > INNOCENT * device_rate { Some(FALL * now) } else { self.rate };
        }
        let rate = self.rate?;
        // Fast reads while little was written say nothing about writing more.
        if window.reads > 0.0 && written < USED * rate {
            return Some(rate);
        }
        (rate * RISE < FREE * device_rate).then_some(rate * RISE)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the guard with a device whose reads are slow when much is written.
    use super::*;

    const DEVICE: f64 = 100e6;

    /// `count` seconds of compactions that write as much as they may, on a device where more than
    /// `slow_at` bytes a second make a tenth of the reads slow; returns the bytes written per
    /// second, on average.
    fn seconds(guard: &mut ReadGuard, look: &mut ReadLook, count: u32, slow_at: f64) -> f64 {
        let began = look.written;
        for _ in 0..count * 10 {
            let rate = guard.tick(look).unwrap_or(f64::INFINITY).min(DEVICE);
            look.written += rate * look.seconds;
            look.reads += 100.0 * look.seconds;
            if rate > slow_at {
                look.slow_reads += 10.0 * look.seconds;
            }
        }
        (look.written - began) / f64::from(count)
    }

    fn first_look() -> ReadLook {
        let device_rate = DEVICE;
        ReadLook { seconds: 0.1, reads: 0.0, slow_reads: 0.0, written: 0.0, device_rate }
    }

    #[pumice_test_macros::test]
    fn what_can_wait_settles_where_reads_are_quick() {
        for slow_at in [20e6, 40e6, 80e6] {
            let (mut guard, mut look) = (ReadGuard::default(), first_look());
            seconds(&mut guard, &mut look, 20, slow_at);
            let slow_before = look.slow_reads;
            let written = seconds(&mut guard, &mut look, 200, slow_at);
            assert!((0.7..1.05).contains(&(written / slow_at)), "{written} of {slow_at}");
            // A tenth of the reads is slow only in a window with too much written, so few are.
            let slow = (look.slow_reads - slow_before) / (200.0 * 100.0);
            assert!(slow < 0.02, "{slow} of the reads");
        }
    }

    #[pumice_test_macros::test]
    fn the_limit_goes_when_reads_are_quick_again() {
        let (mut guard, mut look) = (ReadGuard::default(), first_look());
        seconds(&mut guard, &mut look, 20, 10e6);
        assert!(guard.rate.is_some());
        seconds(&mut guard, &mut look, 90, f64::INFINITY);
        assert_eq!(guard.rate, None);
    }

    /// Slow reads while compactions hardly write: they are not the cause.
    #[pumice_test_macros::test]
    fn who_writes_little_is_not_held_back() {
        let (mut guard, mut look) = (ReadGuard::default(), first_look());
        for _ in 0..100 {
            look.written += 0.01 * DEVICE * look.seconds;
            look.reads += 10.0;
            look.slow_reads += 5.0;
            assert_eq!(guard.tick(&look), None);
        }
    }

    /// One slow read among few is chance.
    #[pumice_test_macros::test]
    fn a_single_slow_read_counts_for_nothing() {
        let (mut guard, mut look) = (ReadGuard::default(), first_look());
        for tick in 0..400 {
            look.written += DEVICE * look.seconds;
            look.reads += 0.5;
            if tick % 40 == 0 {
                look.slow_reads += 1.0;
            }
            assert_eq!(guard.tick(&look), None, "{tick}");
        }
    }
}
