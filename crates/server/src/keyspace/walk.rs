//! Iterates over a range of engine keys, with the transaction's own writes merged in.
//!
//! Thread safety: belongs to its task. Suspends.

use pumice::DbIterator;

use super::database::cursor_between;
use super::txn::Txn;
use super::writes::{Part, Writes};
use super::{Failure, Outcome};

impl Txn<'_> {
    /// Calls `f` with the engine keys of `range` (from the first, up to the end) and their values,
    /// forwards or backwards, until it returns false: for callers that keep what they get.
    /// Suspends.
    ///
    /// # Errors
    /// The engine's; the command's iterations have read more bytes than it may keep.
    pub fn walk(
        &self,
        range: &(Vec<u8>, Vec<u8>),
        backwards: bool,
        f: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        let mut is_full = false;
        self.pass(range, backwards, &mut |key, value| {
            let kept = self.kept.get().saturating_add(key.len() + value.len());
            self.kept.set(kept);
            is_full = kept > self.bytes_max;
            !is_full && f(key, value)
        })?;
        if is_full { Err(Failure::TOO_LARGE) } else { Ok(()) }
    }

    /// As [`Txn::walk`], for callers that keep nothing, however much there is. Suspends.
    ///
    /// # Errors
    /// The engine's.
    pub fn pass(
        &self,
        range: &(Vec<u8>, Vec<u8>),
        backwards: bool,
        f: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        self.roam(range, backwards, &mut |key, value| {
            if f(key, value) { Flow::Next } else { Flow::Stop }
        })
    }

    /// As [`Txn::pass`]; forwards, `f` may also skip to a later key. Suspends.
    ///
    /// # Errors
    /// The engine's.
    pub fn roam(
        &self,
        range: &(Vec<u8>, Vec<u8>),
        backwards: bool,
        f: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Outcome<()> {
        let (first, end) = range;
        if first >= end {
            return Ok(());
        }
        let mut cursor = cursor_between(self.keyspace().db(), &self.reads, first, end)?;
        if backwards {
            cursor.seek_to_last();
        } else {
            cursor.seek(first);
        }
        let mut own = Own::new(&self.writes, first, end, backwards);
        loop {
            while let Some(upto) = cursor.key().and_then(|key| self.cleared_upto(key)) {
                match backwards {
                    true => cursor.prev(),
                    false => cursor.seek(upto),
                }
            }
            let own_first = match (cursor.key(), own.next) {
                (None, None) => break,
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some(stored), Some((key, _))) if key == stored => {
                    step(&mut cursor, backwards);
                    true
                }
                (Some(stored), Some((key, _))) => (key < stored) != backwards,
            };
            let flow = match own.next {
                Some((key, value)) if own_first => {
                    own.advance();
                    value.map_or(Flow::Next, |value| f(key, value))
                }
                _ => {
                    let (key, value) = cursor.item().unwrap_or_default();
                    let flow = f(key, value);
                    if matches!(flow, Flow::Next) {
                        step(&mut cursor, backwards);
                    }
                    flow
                }
            };
            match flow {
                Flow::Next => {}
                Flow::Stop => return Ok(()),
                Flow::Leap(to) if &to >= end => return Ok(()),
                Flow::Leap(to) => {
                    cursor.seek(&to);
                    own = Own::new(&self.writes, &to, end, false);
                }
            }
        }
        Ok(cursor.status()?)
    }
}

fn step(cursor: &mut DbIterator, backwards: bool) {
    if backwards { cursor.prev() } else { cursor.next() }
}

/// How a walk continues.
pub enum Flow {
    /// With the next key.
    Next,
    /// Not at all.
    Stop,
    /// With this key, or the next one there is.
    Leap(Vec<u8>),
}

/// The overlay's part of an iteration.
struct Own<'t> {
    rest: Part<'t>,
    backwards: bool,
    next: Option<(&'t [u8], Option<&'t [u8]>)>,
}

impl<'t> Own<'t> {
    fn new(writes: &'t Writes, first: &[u8], end: &[u8], backwards: bool) -> Own<'t> {
        let mut own = Own { rest: writes.range(first, end), backwards, next: None };
        own.advance();
        own
    }

    fn advance(&mut self) {
        let next = if self.backwards { self.rest.next_back() } else { self.rest.next() };
        self.next = next.map(|(key, value)| (key.as_slice(), value.as_deref()));
    }
}
