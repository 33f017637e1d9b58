//! The view that a cursor reads, and how a tailing cursor renews it. A child made by `fork` must
//! not read it: there a cursor shows the entry that it is on, refuses to move, and releases
//! nothing.
//!
//! Thread safety: as the cursor: `Send`, one owner at a time. Invariant: the parts of a view belong
//! to one moment. A cursor takes another one only while it moves, so that the entry under it never
//! changes.

use std::sync::Arc;

use pumice_base::{InternalIterator, Result, SequenceNumber};
use pumice_port::fiber;
use pumice_port::os::is_forked;
use pumice_table::Extractor;

use crate::callbacks::check_not_forked;
use crate::cost;
use crate::read::elsewhere::BlobReads;
use crate::read::iterator::{DbIterator, Direction, Place};
use crate::read::merging_iterator::MergingIterator;
use crate::read::range_del::RangeDels;
use crate::read::source::Source;
use crate::version::super_version::SuperVersion;

/// See the module head.
pub(crate) struct View {
    pub inner: MergingIterator<Source>,
    pub sequence: SequenceNumber,
    /// With it only keys of one prefix are shown.
    pub prefix: Option<Extractor>,
    pub range_dels: RangeDels,
    pub super_version: Arc<SuperVersion>,
    /// How values in blob files are read.
    pub blob_reads: BlobReads,
}

/// The present view, if it differs from the one of that sequence number and super version; also
/// None once the database is gone.
pub(crate) type Renewal =
    Box<dyn Fn(SequenceNumber, &Arc<SuperVersion>) -> Result<Option<View>> + Send>;

impl DbIterator {
    /// Begins a seek.
    ///
    /// # Errors
    /// Where the cursor may not move; its status then has the error too.
    #[inline]
    pub(super) fn start(&mut self) -> Result<()> {
        fiber::spend(cost::SEEK);
        self.status = Ok(());
        self.at.place = Place::Nowhere;
        self.at.direction = Direction::Forward;
        self.at.has_start_prefix = false;
        if is_forked() {
            self.refuse();
            return self.status.clone();
        }
        if self.renewal.is_some() {
            self.catch_up();
        }
        Ok(())
    }

    /// Ends a move in a child: the sources take locks, which are in the state that other threads
    /// left.
    #[cold]
    pub(super) fn refuse(&mut self) {
        self.at.place = Place::Nowhere;
        self.status = check_not_forked();
    }

    /// From now on each seek sees what was written before it, and so does a step from what was the
    /// last key.
    pub(crate) fn follow(&mut self, renewal: Renewal) {
        // Steps of such a cursor take the longer way, where `pass_end` is.
        self.at.shown = Place::Observed;
        self.renewal = Some(renewal);
    }

    /// A step forward; a cursor that follows goes on at its end.
    pub(super) fn step_forward(&mut self) {
        let last = self.renewal.as_ref().and_then(|_| self.key().map(<[u8]>::to_vec));
        self.step_in_view();
        if let Some(last) = last
            && self.at.place == Place::Nowhere
            && self.status.is_ok()
            && self.inner.status().is_ok()
        {
            self.pass_end(&last);
        }
    }

    /// A step forward from `last` has found no key: looks whether one was written since.
    #[cold]
    fn pass_end(&mut self, last: &[u8]) {
        let before = (self.limits.sequence, Arc::as_ptr(&self.super_version));
        self.catch_up();
        if self.status.is_err()
            || before == (self.limits.sequence, Arc::as_ptr(&self.super_version))
        {
            return;
        }
        self.buffers.saved_key.clear();
        self.buffers.saved_key.extend_from_slice(last);
        self.buffers.aim_after_saved();
        self.inner.seek(self.buffers.target());
        self.find_next(true);
    }

    /// Takes the present view. If an error prevents that, nothing is shown, and the next seek tries
    /// again.
    #[cold]
    pub(super) fn catch_up(&mut self) {
        let Some(renewal) = &self.renewal else { return };
        match renewal(self.limits.sequence, &self.super_version) {
            Ok(None) => {}
            Ok(Some(view)) => self.take(view),
            Err(error) => {
                self.inner = MergingIterator::new(self.cf.icmp.clone(), Vec::new());
                self.limits.sequence = 0;
                self.status = Err(error);
            }
        }
    }

    fn take(&mut self, view: View) {
        self.inner = view.inner;
        self.limits.sequence = view.sequence;
        self.limits.prefix = view.prefix;
        self.range_dels = view.range_dels;
        self.super_version = view.super_version;
        self.at.scoped = false;
    }
}

impl Drop for DbIterator {
    fn drop(&mut self) {
        if is_forked() {
            // Releasing tables and memtables takes locks too.
            let none = MergingIterator::new(self.cf.icmp.clone(), Vec::new());
            std::mem::forget(std::mem::replace(&mut self.inner, none));
            std::mem::forget((Arc::clone(&self.super_version), Arc::clone(&self.cf)));
        }
    }
}
