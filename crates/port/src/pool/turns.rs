//! The queue of a pool: those who queue jobs take turns.
//!
//! Jobs with the same tag belong together: they run in the order they came. Tags take turns, one
//! job each, so that a database with many jobs does not keep those of others waiting. A job without
//! a tag (0) has a turn of its own.
//!
//! Thread safety: belongs to the pool's lock.
//!
//! Invariant: each tag but 0 is in `turns` once at most, and no turn is without a job.

use super::worker::Queued;
use std::collections::VecDeque;

struct Turn {
    tag: u64,
    jobs: VecDeque<Queued>,
}

/// See the module head.
#[derive(Default)]
pub(super) struct Turns {
    turns: VecDeque<Turn>,
    len: usize,
}

impl Turns {
    /// How many jobs there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, job: Queued) {
        self.len += 1;
        let same = self.turns.iter_mut().find(|turn| job.tag != 0 && turn.tag == job.tag);
        match same {
            Some(turn) => turn.jobs.push_back(job),
            None => self.turns.push_back(Turn { tag: job.tag, jobs: VecDeque::from([job]) }),
        }
    }

    /// The next job; its tag then waits for the others.
    pub(super) fn pop(&mut self) -> Option<Queued> {
        let mut turn = self.turns.pop_front()?;
        let job = turn.jobs.pop_front()?;
        self.len -= 1;
        if !turn.jobs.is_empty() {
            self.turns.push_back(turn);
        }
        Some(job)
    }

    /// The job that was pushed last, if it has no tag.
    pub(super) fn pop_untagged_back(&mut self) -> Option<Queued> {
        let last = self.turns.pop_back_if(|turn| turn.tag == 0)?;
        self.len -= 1;
        last.jobs.into_iter().next()
    }

    /// Takes the jobs with `tag`, which is not 0.
    pub(super) fn take_tagged(&mut self, tag: u64) -> VecDeque<Queued> {
        let at = self.turns.iter().position(|turn| tag != 0 && turn.tag == tag);
        let jobs = at.and_then(|at| self.turns.remove(at)).map(|turn| turn.jobs);
        let jobs = jobs.unwrap_or_default();
        self.len -= jobs.len();
        jobs
    }
}
