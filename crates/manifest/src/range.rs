//! Ranges of user keys, as files cover them.
//!
//! A file whose largest key is the sentinel of a range tombstone (`end ‖ (maxseq, 0x0F)`) holds
//! nothing at `end`: its range is open there. Thread safety: borrowed plain data.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::dbformat::{self, MAX_SEQUENCE, ValueType};
use pumice_base::{Comparator, InternalKeyComparator};

use crate::file_meta::FileMetaData;

/// The upper boundary `ikey` of a file stands for the end of a range tombstone, which is open.
#[inline]
pub fn is_open_end(ikey: &[u8]) -> bool {
    dbformat::trailer(ikey) == dbformat::pack(MAX_SEQUENCE, ValueType::RangeDeletion as u8)
}

/// A range of user keys; an absent bound is infinite.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserRange<'a> {
    /// First user key.
    pub begin: Option<&'a [u8]>,
    /// Last user key.
    pub end: Option<&'a [u8]>,
    /// `end` itself is not in the range.
    pub end_open: bool,
}

impl<'a> UserRange<'a> {
    /// `[begin, end]`.
    pub fn closed(begin: Option<&'a [u8]>, end: Option<&'a [u8]>) -> Self {
        UserRange { begin, end, end_open: false }
    }

    /// What `file` covers.
    #[inline]
    pub fn of_file(file: &'a FileMetaData) -> Self {
        UserRange {
            begin: Some(file.smallest_user_key()),
            end: Some(file.largest_user_key()),
            end_open: is_open_end(&file.largest),
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
        let (mut smallest, mut largest) = (&first.smallest, &first.largest);
        for file in files {
            if icmp.compare(&file.smallest, smallest) == Ordering::Less {
                smallest = &file.smallest;
            }
            if icmp.compare(&file.largest, largest) == Ordering::Greater {
                largest = &file.largest;
            }
        }
        UserRange {
            begin: Some(dbformat::user_key(smallest)),
            end: Some(dbformat::user_key(largest)),
            end_open: is_open_end(largest),
        }
    }

    /// The hull of two ranges.
    #[must_use]
    pub fn union(self, other: UserRange<'a>, cmp: &Comparator) -> UserRange<'a> {
        let begin = match (self.begin, other.begin) {
            (Some(a), Some(b)) if cmp.compare(a, b) == Ordering::Greater => Some(b),
            (Some(a), Some(_)) => Some(a),
            _ => None,
        };
        let (end, end_open) = match (self.end, other.end) {
            (Some(a), Some(b)) => match cmp.compare(a, b) {
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
    pub fn is_before_key(&self, key: &[u8], cmp: &Comparator) -> bool {
        self.end.is_some_and(|end| match cmp.compare(end, key) {
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
