//! Whether the device takes more than is known.
//!
//! What it is known to take is what it has taken, and while compactions are limited to a share of
//! that it is not asked for more. So they get more for a moment when writes are held back, and
//! again from time to time: if the device takes it, the next moment brings twice as much more, else
//! it is left in peace for a while, a longer one each time. A question is not free: what a full
//! device makes wait is the log, so that there is no probe while writes are as fast as they want to
//! be. Fewer writes alone are no sign of that, since the user may have fewer: the log has to wait.
//! Until a few questions were denied, what is known says little: a database that is idle, or young,
//! asks little of its device, and all may ask.
//!
//! Thread safety: plain data.

/// Seconds of a question. The rate of the device is measured over two seconds, and a question has
/// to fill one such span.
const ASK_SECONDS: f64 = 4.2;
/// Seconds of peace after a question that was denied: twice as many each time.
const REST_SECONDS_MIN: f64 = 4.0;
const REST_SECONDS_MAX: f64 = 64.0;
/// After this rest the device is known well enough: only those that need its rate probe again.
const REST_SECONDS_SURE: f64 = 8.0;
/// What is asked for, over what is known: at first; while no question was ever denied; and how it
/// grows with each that is not.
const MORE: f64 = 1.25;
const MORE_UNTRIED: f64 = 4.0;
const MORE_AGAIN: f64 = 2.0;
/// The device takes more if what is known has grown so much: less is chance.
const GROWN: f64 = 1.08;
/// A question is over when writes come at less than this share of their rate before it. The device
/// is full, and a young database knows it, if no cap holds them back and the log takes this share
/// of the time.
const HARM: f64 = 0.85;
const LOG_WAITS_SHARE: f64 = 0.5;

/// A question: what was known and written when it began, and what is asked for over what is known.
#[derive(Clone, Copy, Debug)]
struct Question {
    before: f64,
    admitted: f64,
    more: f64,
}

/// What a tick shows while compactions are limited.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeLook {
    /// Bytes a second that the device is known to take.
    pub known: f64,
    /// User bytes a second that are let in, and whether more would come.
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
    /// What to take for the rate of the device now. None: nothing is limited, and the device shows
    /// what it takes by itself.
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
    //! The probe beside a device that takes what it can of what it is asked for.
    use super::*;

    const DEVICE: f64 = 100e6;

    fn look(known: f64) -> ProbeLook {
        ProbeLook { known, admitted: 10e6, held_back: true, log_share: 0.0 }
    }

    /// So many seconds, limited; what is known in the end, and the seconds in which more was asked
    /// for than the device takes.
    fn limited(probe: &mut Probe, known: &mut f64, seconds: f64) -> f64 {
        let mut too_much = 0.0;
        for _ in 0..(seconds / 0.1) as usize {
            let rate = probe.tick(0.1, Some(look(*known)));
            *known = known.max(rate.min(DEVICE));
            too_much += if rate > DEVICE * 1.01 { 0.1 } else { 0.0 };
        }
        too_much
    }

    /// A young database is not held to the little that it has asked for so far.
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

    /// Nor is there one while no more is wanted.
    #[pumice_test_macros::test]
    fn nothing_is_asked_while_writes_are_as_fast_as_they_want() {
        let mut probe = Probe { rest: REST_SECONDS_MAX, ..Probe::default() };
        for _ in 0..1000 {
            let look = ProbeLook { held_back: false, ..look(DEVICE) };
            assert_eq!(probe.tick(0.1, Some(look)), DEVICE);
        }
        assert!(probe.tick(0.1, Some(look(DEVICE))) > DEVICE);
    }

    /// A device that takes no more is left in peace most of the time, limited without a break or
    /// not.
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

    /// Where the log waits the question is over.
    #[pumice_test_macros::test]
    fn a_question_that_harms_writes_is_withdrawn() {
        let mut probe = Probe { rest: REST_SECONDS_MAX, ..Probe::default() };
        assert!(probe.tick(0.1, Some(look(DEVICE))) > DEVICE);
        let harmed = ProbeLook { admitted: 8e6, ..look(DEVICE) };
        assert_eq!(probe.tick(0.1, Some(harmed)), DEVICE);
    }

    /// Also of an unknown device, if no cap explains it; then it is known.
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
