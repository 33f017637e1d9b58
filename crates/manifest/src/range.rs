//! Ranges of user keys, as files cover them.
//!
//! A file whose largest key is the sentinel of a range tombstone (`end ‖ (maxseq, 0x0F)`) holds
//! nothing at `end`: its range is open there. Thread safety: borrowed plain data.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::{Comparator, InternalKeyComparator, UserKey};

use crate::file_meta::FileMetaData;

/// A range of user keys; an absent bound is infinite.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserRange<'a> {
    /// First user key.
    pub begin: Option<UserKey<'a>>,
    /// Last user key.
    pub end: Option<UserKey<'a>>,
    /// `end` itself is not in the range.
    pub end_open: bool,
}

impl<'a> UserRange<'a> {
    /// `[begin, end]`.
    pub fn closed(begin: Option<&'a [u8]>, end: Option<&'a [u8]>) -> Self {
        UserRange { begin: begin.map(UserKey::new), end: end.map(UserKey::new), end_open: false }
    }

    /// What `file` covers.
    #[inline]
    pub fn of_file(file: &'a FileMetaData) -> Self {
        UserRange {
            begin: Some(file.smallest_user_key()),
            end: Some(file.largest_user_key()),
            end_open: file.largest_key().is_range_end(),
        }
    }

    /// The hull of what `files` cover; unbounded if there are none.
    pub fn of_files(
        icmp: &InternalKeyComparator,
        files: impl IntoIterator<Item = &'a Arc<FileMetaData>>,
    ) -> Self {
        let mut files = files.into_iter();
        let Some(first) = files.next() else {
            return UserRange::default();
        };
        let (mut smallest, mut largest) = (first.smallest_key(), first.largest_key());
        for file in files {
            if icmp.compare(file.smallest_key(), smallest) == Ordering::Less {
                smallest = file.smallest_key();
            }
            if icmp.compare(file.largest_key(), largest) == Ordering::Greater {
                largest = file.largest_key();
            }
        }
        UserRange {
            begin: Some(smallest.user_key()),
            end: Some(largest.user_key()),
            end_open: largest.is_range_end(),
        }
    }

    /// The hull of two ranges.
    #[must_use]
    pub fn union(self, other: UserRange<'a>, cmp: &Comparator) -> UserRange<'a> {
        let begin = match (self.begin, other.begin) {
            (Some(a), Some(b)) if cmp.compare_without_timestamp(a, b) == Ordering::Greater => {
                Some(b)
            }
            (Some(a), Some(_)) => Some(a),
            _ => None,
        };
        let (end, end_open) = match (self.end, other.end) {
            (Some(a), Some(b)) => match cmp.compare_without_timestamp(a, b) {
                Ordering::Less => (Some(b), other.end_open),
                Ordering::Equal => (Some(a), self.end_open && other.end_open),
                Ordering::Greater => (Some(a), self.end_open),
            },
            _ => (None, false),
        };
        UserRange { begin, end, end_open }
    }

    /// All of the range lies before user key `key`.
    #[inline]
    pub fn is_before_key(&self, key: UserKey<'_>, cmp: &Comparator) -> bool {
        self.end.is_some_and(|end| match cmp.compare_without_timestamp(end, key) {
            Ordering::Less => true,
            Ordering::Equal => self.end_open,
            Ordering::Greater => false,
        })
    }

    /// All of the range lies before `other`.
    #[inline]
    pub fn is_before(&self, other: &UserRange<'_>, cmp: &Comparator) -> bool {
        other.begin.is_some_and(|begin| self.is_before_key(begin, cmp))
    }

    /// The two ranges share a user key.
    #[inline]
    pub fn overlaps(&self, other: &UserRange<'_>, cmp: &Comparator) -> bool {
        !self.is_before(other, cmp) && !other.is_before(self, cmp)
    }
}
