//! Recovery from an error of the disk after which the engine refuses writes.
//!
//! | the engine | what is done | what standard error gets |
//! |---|---|---|
//! | has no such error | nothing | that writes work again, if they did not |
//! | has one that a retry may clear | a new attempt | that attempt's failure, once for each kind |
//! | found the disk full | nothing: it tries by itself | as above |
//! | found damage, or has panicked | nothing: only a restart helps | this, once |
//!
//! The pause before the next look grows with each attempt, also with one that works, and shrinks
//! while all is well: a disk that keeps failing is not tried, and does not fill the log, all the
//! time.
//!
//! Thread safety: belongs to the task of `upkeep` that looks.

use std::collections::BTreeSet;
use std::time::Duration;

use pumice::{Error, Result, Severity};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// See the module's head.
pub(super) struct Recovery {
    pause: Duration,
    /// Errors that were reported since writes last worked, without their digits.
    reported: BTreeSet<String>,
}

impl Default for Recovery {
    /// Writes work.
    fn default() -> Recovery {
        Recovery { pause: PAUSE, reported: BTreeSet::new() }
    }
}

fn needs_restart(error: &Error) -> bool {
    error.severity() >= Severity::Unrecoverable
}

/// An attempt to recover from `error` by `recover`.
fn attempt(error: Error, recover: impl FnOnce() -> Result<()>) -> Result<()> {
    if needs_restart(&error) || error.is_no_space() {
        return Err(error);
    }
    recover()
}

impl Recovery {
    /// How long to wait before the next look.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Looks at the error because of which writes are refused now, and tries to recover by
    /// `recover`. Returns a line to report. Suspends as `recover` does.
    pub(super) fn look(
        &mut self,
        error: Option<Error>,
        recover: impl FnOnce() -> Result<()>,
    ) -> Option<String> {
        let Some(error) = error else {
            self.pause = (self.pause / 2).max(PAUSE);
            return self.report_recovery(None);
        };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        match attempt(error.clone(), recover) {
            Ok(()) => self.report_recovery(Some(&error)),
            Err(failed) => self.report_failure(&failed),
        }
    }

    fn report_recovery(&mut self, error: Option<&Error>) -> Option<String> {
        let was_reported = !std::mem::take(&mut self.reported).is_empty();
        match error {
            Some(error) if !was_reported => {
                Some(format!("writes work again after an error: {error}"))
            }
            _ => was_reported.then(|| "writes work again".to_string()),
        }
    }

    fn report_failure(&mut self, error: &Error) -> Option<String> {
        let text = error.to_string();
        // The numbers in the text are those of files, and each attempt makes others.
        let kind = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let is_new = self.reported.insert(kind);
        let next = match needs_restart(error) {
            true => "until a restart, and maybe `pumice repair`",
            false => "until an attempt to recover succeeds",
        };
        is_new.then(|| format!("writes are refused {next}: {text}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn failed(file: &str) -> Error {
        Error::io_message(format!("{file}: it broke")).with_severity(Severity::Hard)
    }

    fn no_attempt() -> Result<()> {
        std::panic::panic_any("an attempt")
    }

    #[pumice_test_macros::test]
    fn failures_are_told_once_for_each_kind_and_so_is_the_end() {
        let mut recovery = Recovery::default();
        assert_eq!(recovery.look(None, no_attempt), None);
        let refused = "writes are refused until an attempt to recover succeeds: IO error: ";
        for (file, line) in [
            ("000004.sst", Some("000004.sst: it broke")),
            ("000017.sst", None),
            ("MANIFEST-5", Some("MANIFEST-5: it broke")),
            ("000023.sst", None),
            ("MANIFEST-6", None),
        ] {
            let told = recovery.look(Some(failed("000003.log")), || Err(failed(file)));
            assert_eq!(told, line.map(|line| format!("{refused}{line}")));
        }
        let told = recovery.look(Some(failed("000003.log")), || Ok(()));
        assert_eq!(told.unwrap(), "writes work again");
        assert_eq!(recovery.look(None, no_attempt), None);
        // A second outage is reported again; the engine may also recover by itself.
        assert!(recovery.look(Some(failed("1.log")), || Err(failed("000029.sst"))).is_some());
        assert_eq!(recovery.look(None, no_attempt).unwrap(), "writes work again");
        let told = recovery.look(Some(failed("1.log")), || Ok(()));
        assert_eq!(told.unwrap(), "writes work again after an error: IO error: 1.log: it broke");
    }

    #[pumice_test_macros::test]
    fn damage_needs_a_restart_and_a_full_disk_is_left_to_the_engine() {
        let mut recovery = Recovery::default();
        let damage = Error::corruption("a block").with_severity(Severity::Unrecoverable);
        let told = recovery.look(Some(damage.clone()), no_attempt).unwrap();
        let expected = "writes are refused until a restart, and maybe `pumice repair`: Corruption: \
                        a block";
        assert_eq!(told, expected);
        assert_eq!(recovery.look(Some(damage), no_attempt), None);
        let full = failed("1.log").with_subcode(pumice::SubCode::NoSpace);
        assert!(recovery.look(Some(full.clone()), no_attempt).is_some());
        assert_eq!(recovery.look(Some(full), no_attempt), None);
    }

    #[pumice_test_macros::test]
    fn pauses_grow_with_attempts_and_shrink_while_all_is_well() {
        let mut recovery = Recovery::default();
        let mut pauses = |count: usize, fails: bool, works: bool| -> Vec<u64> {
            let one = |_| {
                let recover = || if works { Ok(()) } else { Err(failed("1.sst")) };
                recovery.look(fails.then(|| failed("1.log")), recover);
                recovery.pause().as_millis() as u64
            };
            (0..count).map(one).collect()
        };
        assert_eq!(pauses(2, false, false), [100, 100]);
        assert_eq!(pauses(8, true, false), [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(pauses(8, false, false), [5000, 2500, 1250, 625, 312, 156, 100, 100]);
        // Attempts that work for a moment only.
        assert_eq!(pauses(4, true, true), [200, 400, 800, 1600]);
    }
}
