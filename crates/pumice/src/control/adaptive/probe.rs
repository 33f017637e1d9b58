//! Probes whether the device can take more than is known.
//!
//! The known rate is what the device has taken so far, and while compactions are limited to a share
//! of that, no more is asked of it. So when writes are held back compactions get more for a moment,
//! and again from time to time: if the device takes it, the next question adds twice as much,
//! otherwise there is a pause, longer each time. A question is not free: on a full device the log
//! waits, so there is no probe while writes are not held back. Fewer writes alone do not show that
//! the device is full, since the user may offer fewer: the log has to wait. Until a few questions
//! have been denied, the known rate says little: an idle or young database asks little of its
//! device, and every database may probe.
//!
//! Thread safety: plain data.

/// Length of a question in seconds. The rate of the device is measured over two seconds, and a
/// question has to cover one such span.
const ASK_SECONDS: f64 = 4.2;
/// Seconds of rest after a question that was denied; they double each time.
const REST_SECONDS_MIN: f64 = 4.0;
const REST_SECONDS_MAX: f64 = 64.0;
/// After a rest of this length the rate counts as known: only databases that need it probe again.
const REST_SECONDS_SURE: f64 = 8.0;
/// The rate asked for, relative to the known one: by a first question; by a first question while
/// none has been denied; and the factor by which it grows after each question that is not denied.
const MORE: f64 = 1.25;
const MORE_UNTRIED: f64 = 4.0;
const MORE_AGAIN: f64 = 2.0;
/// The device takes more if the known rate has grown by this factor: less is chance.
const GROWN: f64 = 1.08;
/// A question ends when writes fall below this share of their rate before it. The device counts as
/// full, even for a young database, if no cap holds writes back and the log takes this share of the
/// time.
const HARM: f64 = 0.85;
const LOG_WAITS_SHARE: f64 = 0.5;

/// A question: the known rate and the write rate at its start, and the rate asked for relative to
/// the known one.
#[derive(Clone, Copy, Debug)]
struct Question {
    before: f64,
    admitted: f64,
    more: f64,
}

/// Input of a tick while compactions are limited.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeLook {
    /// Bytes a second that the device is known to take.
    pub known: f64,
    /// User bytes a second that are admitted, and whether more would come.
    pub admitted: f64,
    pub held_back: bool,
    /// Share of the time that appending to the log takes.
    pub log_share: f64,
}

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(super) struct Probe {
    /// Seconds since the present question or rest began; None while nothing is limited.
    since: Option<f64>,
    /// None in a rest.
    question: Option<Question>,
    /// Seconds since something was limited.
    free: f64,
    /// Seconds of the present rest, or the last one; 0 before the first.
    rest: f64,
}

impl Probe {
    /// The rate to assume for the device now. None: nothing is limited, and the measured rate is
    /// used.
    pub fn tick(&mut self, seconds: f64, look: Option<ProbeLook>) -> f64 {
        let Some(look) = look else {
            self.free += seconds;
            if self.free > REST_SECONDS_SURE {
                (self.since, self.question) = (None, None);
            }
            return 0.0;
        };
        self.free = 0.0;
        self.since = self.since.map(|since| since + seconds);
        let since = self.since.unwrap_or(f64::INFINITY);
        let is_sure = self.rest > REST_SECONDS_SURE;
        match self.question {
            None => {
                if since >= self.rest && (look.held_back || !is_sure) {
                    self.ask(&look, if self.rest > 0.0 { MORE } else { MORE_UNTRIED });
                }
            }
            Some(asked) => {
                let slower = look.admitted < HARM * asked.admitted;
                if slower && !look.held_back && look.log_share > LOG_WAITS_SHARE {
                    self.rest = self.rest.max(REST_SECONDS_SURE);
                    self.deny();
                } else if slower && is_sure {
                    self.deny();
                } else if since >= ASK_SECONDS && look.known > asked.before * GROWN {
                    self.rest = self.rest.min(REST_SECONDS_MIN);
                    self.ask(&look, asked.more * MORE_AGAIN);
                } else if since >= ASK_SECONDS {
                    self.deny();
                }
            }
        }
        self.question.map_or(look.known, |question| look.known * question.more)
    }

    fn ask(&mut self, look: &ProbeLook, more: f64) {
        self.since = Some(0.0);
        self.question = Some(Question { before: look.known, admitted: look.admitted, more });
    }

    fn deny(&mut self) {
        (self.since, self.question) = (Some(0.0), None);
        self.rest = (self.rest * 2.0).clamp(REST_SECONDS_MIN, REST_SECONDS_MAX);
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the probe with a device that takes as much as it can.
    use super::*;

    const DEVICE: f64 = 100e6;

    fn look(known: f64) -> ProbeLook {
        ProbeLook { known, admitted: 10e6, held_back: true, log_share: 0.0 }
    }

    /// Runs for `seconds` with limited compactions; returns the seconds in which more was asked for
    /// than the device takes.
    fn limited(probe: &mut Probe, known: &mut f64, seconds: f64) -> f64 {
        let mut too_much = 0.0;
        for _ in 0..(seconds / 0.1) as usize {
            let rate = probe.tick(0.1, Some(look(*known)));
            *known = known.max(rate.min(DEVICE));
            too_much += if rate > DEVICE * 1.01 { 0.1 } else { 0.0 };
        }
        too_much
    }

    /// A young database is not limited to the little that it has asked for so far.
    #[pumice_test_macros::test]
    fn a_device_that_was_never_tried_is_found_out_at_once() {
        let (mut probe, mut known) = (Probe::default(), 1e6);
        limited(&mut probe, &mut known, 4.0 * ASK_SECONDS);
        assert_eq!(known, DEVICE);
    }

    /// A rate that was forgotten is found again by a few questions, each for twice as much more.
    #[pumice_test_macros::test]
    fn what_is_given_is_asked_for_again() {
        let (mut probe, mut known) = (Probe { rest: REST_SECONDS_MAX, ..Probe::default() }, 20e6);
        limited(&mut probe, &mut known, 3.5 * ASK_SECONDS);
        assert_eq!(known, DEVICE);
    }

    /// There is no question while no more is wanted.
    #[pumice_test_macros::test]
    fn nothing_is_asked_while_writes_are_as_fast_as_they_want() {
        let mut probe = Probe { rest: REST_SECONDS_MAX, ..Probe::default() };
        for _ in 0..1000 {
            let look = ProbeLook { held_back: false, ..look(DEVICE) };
            assert_eq!(probe.tick(0.1, Some(look)), DEVICE);
        }
        assert!(probe.tick(0.1, Some(look(DEVICE))) > DEVICE);
    }

    /// A device that takes no more is rarely probed, whether limited continuously or not.
    #[pumice_test_macros::test]
    fn a_question_that_is_denied_is_not_repeated_soon() {
        let (mut probe, mut known) = (Probe { rest: REST_SECONDS_MAX, ..Probe::default() }, DEVICE);
        let mut too_much = 0.0;
        for _ in 0..500 {
            too_much += limited(&mut probe, &mut known, 2.0);
            for _ in 0..10 {
                assert_eq!(probe.tick(0.1, None), 0.0);
            }
        }
        assert!((50.0..100.0).contains(&too_much), "{too_much} s of 1000");
    }

    /// A user who writes less for a moment has not filled the device of a young database.
    #[pumice_test_macros::test]
    fn fewer_writes_are_no_harm_while_the_log_does_not_wait() {
        let mut probe = Probe::default();
        assert!(probe.tick(0.1, Some(look(DEVICE))) > DEVICE);
        let fewer = ProbeLook { admitted: 2e6, held_back: false, ..look(DEVICE) };
        assert!(probe.tick(0.1, Some(fewer)) > DEVICE);
    }

    /// A question ends when the log waits.
    #[pumice_test_macros::test]
    fn a_question_that_harms_writes_is_withdrawn() {
        let mut probe = Probe { rest: REST_SECONDS_MAX, ..Probe::default() };
        assert!(probe.tick(0.1, Some(look(DEVICE))) > DEVICE);
        let harmed = ProbeLook { admitted: 8e6, ..look(DEVICE) };
        assert_eq!(probe.tick(0.1, Some(harmed)), DEVICE);
    }

    /// This also holds for an unknown device, if no cap explains it; its rate is then known.
    #[pumice_test_macros::test]
    fn a_log_that_waits_tells_that_the_device_is_full() {
        for held_back in [true, false] {
            let mut probe = Probe::default();
            assert!(probe.tick(0.1, Some(look(DEVICE))) > DEVICE);
            let harmed = ProbeLook { admitted: 8e6, held_back, log_share: 0.9, ..look(DEVICE) };
            assert_eq!(probe.tick(0.1, Some(harmed)) > DEVICE, held_back);
        }
    }
}
