//! A cursor over an engine that has ranges only: where it turns, a new range begins.
//!
//! A move in one direction is one step of the engine's iterator. The state that it sees is that of
//! the last seek or turn.
//!
//! Thread safety: a cursor belongs to one worker.

use super::super::engine::{Cursor, Result};
use std::ops::Bound;

/// What an engine has.
pub trait Ranges {
    /// A key and a value.
    type Entry;
    /// An iterator over a range, from both ends.
    type Iter;
    /// The entries between these keys.
    fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Self::Iter>;
    /// The next from the front, or from the back.
    fn step(iter: &mut Self::Iter, forward: bool) -> Option<Result<Self::Entry>>;
    /// The key.
    fn key(entry: &Self::Entry) -> &[u8];
    /// The value.
    fn value(entry: &Self::Entry) -> &[u8];
}

/// See the head of this file.
pub struct RangeCursor<R: Ranges> {
    ranges: R,
    /// With the direction in which it is used.
    iter: Option<(R::Iter, bool)>,
    entry: Option<R::Entry>,
    failed: Option<String>,
}

impl<R: Ranges> RangeCursor<R> {
    /// On no entry.
    pub fn new(ranges: R) -> Self {
        RangeCursor { ranges, iter: None, entry: None, failed: None }
    }

    fn start(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>, forward: bool) {
        match self.ranges.range(from, to) {
            Ok(iter) => {
                self.iter = Some((iter, forward));
                self.step();
            }
            Err(error) => self.fail(error),
        }
    }

    fn step(&mut self) {
        let Some((iter, forward)) = &mut self.iter else { return };
        match R::step(iter, *forward) {
            Some(Ok(entry)) => self.entry = Some(entry),
            Some(Err(error)) => self.fail(error),
            None => self.entry = None,
        }
    }

    fn fail(&mut self, error: String) {
        self.entry = None;
        self.failed.get_or_insert(error);
    }

    fn go(&mut self, forward: bool) {
        if matches!(self.iter, Some((_, direction)) if direction == forward) {
            return self.step();
        }
        let Some(entry) = self.entry.take() else { return };
        let here = Bound::Excluded(R::key(&entry));
        match forward {
            true => self.start(here, Bound::Unbounded, true),
            false => self.start(Bound::Unbounded, here, false),
        }
    }
}

impl<R: Ranges> Cursor for RangeCursor<R> {
    fn valid(&self) -> bool {
        self.entry.is_some()
    }
    fn seek_to_first(&mut self) {
        self.start(Bound::Unbounded, Bound::Unbounded, true);
    }
    fn seek_to_last(&mut self) {
        self.start(Bound::Unbounded, Bound::Unbounded, false);
    }
    fn seek(&mut self, key: &[u8]) {
        self.start(Bound::Included(key), Bound::Unbounded, true);
    }
    fn next(&mut self) {
        self.go(true);
    }
    fn prev(&mut self) {
        self.go(false);
    }
    fn key(&self) -> &[u8] {
        self.entry.as_ref().map_or(&[], R::key)
    }
    fn value(&self) -> &[u8] {
        self.entry.as_ref().map_or(&[], R::value)
    }
    fn status(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Keys of one byte, each with itself as its value; the key 9 cannot be read.
    struct Bytes(Vec<u8>);

    impl Ranges for Bytes {
        type Entry = [u8; 1];
        type Iter = VecDeque<u8>;
        fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<VecDeque<u8>> {
            let inside = |key: &&u8| std::ops::RangeBounds::contains(&(from, to), &[**key][..]);
            Ok(self.0.iter().filter(inside).copied().collect())
        }
        fn step(iter: &mut VecDeque<u8>, forward: bool) -> Option<Result<[u8; 1]>> {
            let key = if forward { iter.pop_front() } else { iter.pop_back() }?;
            Some(if key == 9 { Err("nine".into()) } else { Ok([key]) })
        }
        fn key(entry: &[u8; 1]) -> &[u8] {
            entry
        }
        fn value(entry: &[u8; 1]) -> &[u8] {
            entry
        }
    }

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn it_goes_both_ways_and_turns() {
        let mut cursor = RangeCursor::new(Bytes(vec![1, 3, 5, 7]));
        assert!(!cursor.valid());
        cursor.seek(&[2]);
        assert_eq!((cursor.key(), cursor.value()), (&[3][..], &[3][..]));
        cursor.next();
        assert_eq!(cursor.key(), [5]);
        cursor.prev();
        cursor.prev();
        assert_eq!(cursor.key(), [1]);
        cursor.next();
        assert_eq!(cursor.key(), [3]);
        cursor.seek_to_last();
        assert_eq!(cursor.key(), [7]);
        cursor.next();
        assert!(!cursor.valid() && cursor.status().is_ok());
        cursor.seek_to_first();
        cursor.prev();
        assert!(!cursor.valid());
        cursor.seek(&[8]);
        assert!(!cursor.valid());
    }

    // Plain #[test]: see above.
    #[test]
    fn an_error_ends_it_and_is_returned() {
        let mut cursor = RangeCursor::new(Bytes(vec![1, 9]));
        cursor.seek_to_first();
        assert!(cursor.valid());
        cursor.next();
        assert_eq!((cursor.valid(), cursor.status()), (false, Err("nine".to_string())));
    }
}
