//! Taking back what a command was going to write, for EXEC, which continues after a refused
//! command, even one that was refused halfway through its writes, for example by a record that
//! cannot be read.
//!
//! On request, a transaction notes the state of its overlay before each change; other commands do
//! not need this, since nothing of theirs is written after a refusal. A swap of databases is not
//! noted: the command that makes it does nothing after it that can be refused.
//!
//! Thread safety: plain data.

use super::counts::Changes;
use super::txn::Txn;
use super::writes::Value;

/// What a change of the overlay has replaced.
pub(super) enum Step {
    /// The pending write of a key.
    Wrote(Vec<u8>, Option<Value>),
    /// The ranges that are now one, which begins at this key.
    Cleared(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>),
}

/// The changes of a command, and what was there before it.
pub(super) struct Undo {
    pub steps: Vec<Step>,
    pub events: usize,
    pub counted: Changes,
    pub bytes: usize,
    pub db: u8,
}

impl Txn<'_> {
    /// From now on changes can be taken back; those so far no longer.
    pub fn note_changes(&mut self) {
        self.undo = Some(Undo {
            steps: Vec::new(),
            events: self.events.len(),
            counted: self.counted.clone(),
            bytes: self.bytes,
            db: self.db(),
        });
    }

    /// Takes back every change since [`Txn::note_changes`], unless there were more than may be
    /// written: then nothing will be written at all.
    pub fn take_back(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        for step in undo.steps.into_iter().rev() {
            match step {
                Step::Wrote(key, Some(value)) => {
                    self.writes.insert(key, value);
                }
                Step::Wrote(key, None) => {
                    self.writes.remove(&key);
                }
                Step::Cleared(first, ranges) => {
                    self.cleared.remove(&first);
                    self.cleared.extend(ranges);
                }
            }
        }
        self.events.truncate(undo.events);
        self.counted = undo.counted;
        self.bytes = undo.bytes;
        self.select(undo.db);
    }

    /// Notes a change, if changes are noted.
    pub(super) fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(undo) = &mut self.undo {
            undo.steps.push(step());
        }
    }
}
