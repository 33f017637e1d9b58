//! Admission policy: whether an optional entry is worth a place in a full cache.
//!
//! If a cache is much too small for the data read through it, most entries are evicted before their
//! first hit: preparing them for the cache was wasted work, and others were evicted for them. So
//! the cache records when an entry was missed. A *return* is a miss that comes so soon after the
//! last miss of the same entry that, had it been admitted then, it would now have been a hit. The
//! share of returns among the misses measures the value of admitting at the first miss. It is kept
//! for each [`Priority`], whose entries behave differently: a cache may hold most index blocks and
//! next to no data blocks.
//!
//! - While it is high, entries are admitted at once; one in [`SAMPLE`], chosen by key, only on its
//!   return, to keep measuring the share;
//! - while it is low, an entry is admitted only on a return that is *prompt*: an entry that is read
//!   at random and returns by chance mostly takes longer, one that is read often does not. Each
//!   admission then costs one more miss, and until it the place is left to others.
//!
//! Thread safety: any thread; the share is a relaxed atomic that may lose an update. Invariant: it
//! stays within 0 and [`ALL`]. Does not know which entries are in the cache.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::key::Priority;

/// The share when every miss is a return.
const ALL: u32 = 1 << 16;
/// Below this share admitting at once does not pay. An entry that returns in time with probability
/// p makes a share of p / (1 + p), so this is p = 1/3: entries already in a full cache mostly have
/// more.
const WORTH_IT: u32 = ALL / 4;
/// One miss moves the share by this part of the distance to its own value, 0 or [`ALL`].
const WEIGHT: u32 = 64;
/// One key in this many is never admitted at its first miss.
const SAMPLE: u64 = 16;

/// How long after the last miss of the same entry a miss came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// Never, or too long ago for the entry to be still cached.
    Late,
    /// In time.
    InTime,
    /// Within a small part of that time.
    Prompt,
}

/// What is known about returns.
pub(crate) struct Admission([Share; Priority::COUNT]);

/// What is known about returns of entries of one priority.
pub(crate) struct Share(AtomicU32);

impl Admission {
    /// Nothing is known: entries are admitted at once.
    pub(crate) fn new() -> Self {
        Admission(std::array::from_fn(|_| Share(AtomicU32::new(2 * WORTH_IT))))
    }

    /// What is known about this priority.
    pub(crate) fn of(&self, priority: Priority) -> &Share {
        &self.0[priority as usize]
    }
}

impl Share {
    /// The entry with this hash of its key was missed. Returns whether to admit it. `returned` says
    /// when it was last missed, and is called only if needed.
    pub(crate) fn decide(&self, hash: u64, returned: impl FnOnce() -> Return) -> bool {
        let share = self.0.load(Relaxed);
        // The low bits choose a slot, the middle ones are the mark's.
        let sampled = (hash >> 56).is_multiple_of(SAMPLE);
        if share >= WORTH_IT && !sampled {
            return true;
        }
        let returned = returned();
        let target = if returned == Return::Late { 0 } else { ALL };
        self.0.store(share - share / WEIGHT + target / WEIGHT, Relaxed);
        match returned {
            Return::Late => false,
            Return::InTime => share >= WORTH_IT,
            Return::Prompt => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that return with a given probability: if it is high they are admitted at once, except
    /// the sample; if it is low, only on a prompt return; and the policy recovers after a change.
    #[pumice_test_macros::test]
    fn follows_the_share_of_returns() {
        let mut rng = pumice_base::random::Rng::new(7);
        let admission = Admission::new();
        let low = admission.of(Priority::Low);
        for (percent, at_once) in [(50, true), (2, false), (40, true), (5, false), (100, true)] {
            let (mut admitted, mut prompt) = (0, 0);
            for round in 0..8000 {
                let returned = match rng.uniform(100) < percent {
                    true if rng.one_in(2) => Return::Prompt,
                    true => Return::InTime,
                    false => Return::Late,
                };
                let verdict = low.decide(rng.next_u64(), || returned);
                if round >= 4000 {
                    admitted += u32::from(verdict);
                    prompt += u32::from(returned == Return::Prompt);
                }
            }
            let share = low.0.load(Relaxed);
            assert!(share <= ALL, "{share}");
            if at_once {
                assert!(admitted > 4000 / 100 * 85, "{percent} %: {admitted} of 4000");
            } else {
                assert_eq!(admitted, prompt, "{percent} %");
            }
        }
    }
}
