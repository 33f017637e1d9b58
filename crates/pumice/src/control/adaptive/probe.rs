//! Whether the device takes more than is known.
//!
//! What it is known to take is what it has taken, and while compactions are limited to a share of
//! that it is not asked for more. So they get more for a moment when writes are held back, and
//! again from time to time: if the device takes it, the next moment brings twice as much more, else
//! it is left in peace for a while. A question is not free: what a full device makes wait is the
//! log, so that nobody asks while writes are as fast as they want to be. Until the device was first
//! seen to take no more than was known, what is known says next to nothing: a database that is
//! idle, or young, asks little of it.
//!
//! Thread safety: plain data.

/// Seconds of peace between two questions, and of a question. The rate of the device is measured
/// over two seconds, and a question has to fill one such span.
const REST_SECONDS: f64 = 16.0;
const ASK_SECONDS: f64 = 4.2;
/// What is asked for, over what is known: at first; while no question was ever denied; and how it
/// grows with each that is not.
const MORE: f64 = 1.15;
const MORE_UNTRIED: f64 = 4.0;
const MORE_AGAIN: f64 = 2.0;
/// The device takes more if what is known has grown so much.
const GROWN: f64 = 1.03;

/// A question: what was known when it began, and what is asked for over what is known.
#[derive(Clone, Copy, Debug)]
struct Question {
    before: f64,
    more: f64,
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
    /// Some question was denied.
    tried: bool,
}

impl Probe {
    /// What to take for the rate of the device now, given what is `known`; None: nothing is
    /// limited, and the device shows what it takes by itself. `held_back`: writes are.
    pub fn tick(&mut self, seconds: f64, known: Option<f64>, held_back: bool) -> f64 {
        let Some(known) = known else {
            self.free += seconds;
            if self.free > REST_SECONDS {
                (self.since, self.question) = (None, None);
            }
            return 0.0;
        };
        self.free = 0.0;
        let first = if self.tried { MORE } else { MORE_UNTRIED };
        let since = self.since.map(|since| since + seconds);
        let (begins, question) = match (since, self.question) {
            (_, None) => {
                let rested = since.is_none_or(|since| since >= REST_SECONDS);
                let asks = rested && (held_back || !self.tried);
                (asks, asks.then_some(Question { before: known, more: first }))
            }
            (Some(since), Some(asked)) if since >= ASK_SECONDS => {
                let grown = known > asked.before * GROWN;
                self.tried |= !grown;
                let more = asked.more * MORE_AGAIN;
                (true, grown.then_some(Question { before: known, more }))
            }
            (_, question) => (false, question),
        };
        self.since = if begins { Some(0.0) } else { since };
        self.question = question;
        question.map_or(known, |question| known * question.more)
    }
}

#[cfg(test)]
mod tests {
    //! The probe beside a device that takes what it can of what it is asked for.
    use super::*;

    const DEVICE: f64 = 100e6;

    /// So many seconds, limited; what is known in the end, and the seconds in which more was asked
    /// for than the device takes.
    fn limited(probe: &mut Probe, known: &mut f64, seconds: f64) -> f64 {
        let mut too_much = 0.0;
        for _ in 0..(seconds / 0.1) as usize {
            let rate = probe.tick(0.1, Some(*known), true);
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
        let (mut probe, mut known) = (Probe { tried: true, ..Probe::default() }, 20e6);
        limited(&mut probe, &mut known, 3.5 * ASK_SECONDS);
        assert_eq!(known, DEVICE);
    }

    /// Nor is it asked while nobody wants more.
    #[pumice_test_macros::test]
    fn nothing_is_asked_while_writes_are_as_fast_as_they_want() {
        let mut probe = Probe { tried: true, ..Probe::default() };
        for _ in 0..1000 {
            assert_eq!(probe.tick(0.1, Some(DEVICE), false), DEVICE);
        }
        assert!(probe.tick(0.1, Some(DEVICE), true) > DEVICE);
    }

    /// A device that takes no more is left in peace four fifths of the time, limited without a
    /// break or not.
    #[pumice_test_macros::test]
    fn a_question_that_is_denied_is_not_repeated_soon() {
        let (mut probe, mut known) = (Probe { tried: true, ..Probe::default() }, DEVICE);
        let mut too_much = 0.0;
        for _ in 0..100 {
            too_much += limited(&mut probe, &mut known, 2.0);
            for _ in 0..10 {
                assert_eq!(probe.tick(0.1, None, true), 0.0);
            }
        }
        assert!((30.0..55.0).contains(&too_much), "{too_much} s of 200");
    }
}
