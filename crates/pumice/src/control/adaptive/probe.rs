//! Whether the device takes more than is known.
//!
//! What it is known to take is what it has taken, and while compactions are limited to a share of
//! that it is not asked for more. So from time to time they get more for a moment: if the device
//! takes it, the next moment brings more again, else it is left in peace for a while.
//!
//! Thread safety: plain data.

/// Seconds of peace between two questions, and of a question. The rate of the device is measured
/// over two seconds, and a question has to fill one such span.
const REST_SECONDS: f64 = 16.0;
const ASK_SECONDS: f64 = 4.2;
/// What is asked for, over what is known.
const MORE: f64 = 1.25;
/// The device takes more if what is known has grown so much.
const GROWN: f64 = 1.03;

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(super) struct Probe {
    /// Seconds since the present question or rest began; None while nothing is limited.
    since: Option<f64>,
    /// What was known when the question began; None in a rest.
    before: Option<f64>,
}

impl Probe {
    /// What to take for the rate of the device now, given what is `known`; None: nothing is
    /// limited, and the device shows what it takes by itself.
    pub fn tick(&mut self, seconds: f64, known: Option<f64>) -> f64 {
        let Some(known) = known else {
            *self = Probe::default();
            return 0.0;
        };
        let since = self.since.map_or(0.0, |since| since + seconds);
        self.since = Some(since);
        match self.before {
            None if since >= REST_SECONDS => (self.since, self.before) = (Some(0.0), Some(known)),
            Some(before) if since >= ASK_SECONDS => {
                self.since = Some(0.0);
                self.before = (known > before * GROWN).then_some(known);
            }
            _ => {}
        }
        if self.before.is_some() { known * MORE } else { known }
    }
}
