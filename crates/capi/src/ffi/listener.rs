//! Event listeners.
//!
//! One of C's may serve several databases: each gets an object of its own, which knows where its
//! handle is. Before the handle exists, while a database is being opened, C gets null.

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Arc;

use pumice::{
    BackgroundErrorReason, CompactionJobInfo, Error, EventListener, ExternalFileIngestionInfo,
    FlushJobInfo, MemTableInfo, SubcompactionJobInfo, WriteStallInfo,
};
use pumice_binding::database::Slot;
use pumice_binding::reports::{
    CompactionInfo, FlushInfo, Ingestion, MemTable, Stall, SubcompactionInfo,
    background_error_reason,
};

use super::callback::{DestroyFn, Owner};
use crate::ffi::from::State;
use crate::ffi::types::{Status, rocksdb_t};

/// A call with the database and a report.
pub type DbCall<T> = Option<unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *mut T)>;

/// A call with a report.
pub type Call<T> = Option<unsafe extern "C" fn(*mut c_void, *mut T)>;
/// A call with the reason and the error.
pub type ErrorCall = Option<unsafe extern "C" fn(*mut c_void, u32, *mut Status)>;

/// The functions of a listener.
#[derive(Clone, Copy)]
pub struct Calls {
    /// A flush begins.
    pub flush_begin: DbCall<FlushInfo>,
    /// A flush ended.
    pub flush_completed: DbCall<FlushInfo>,
    /// A compaction begins.
    pub compaction_begin: DbCall<CompactionInfo>,
    /// A compaction ended.
    pub compaction_completed: DbCall<CompactionInfo>,
    /// A part of a compaction begins.
    pub subcompaction_begin: Call<SubcompactionInfo>,
    /// A part of a compaction ended.
    pub subcompaction_completed: Call<SubcompactionInfo>,
    /// A table was ingested.
    pub ingested: DbCall<Ingestion>,
    /// Something failed in the background.
    pub background_error: ErrorCall,
    /// A stall began, changed or ended.
    pub stall_changed: Call<Stall>,
    /// A memtable was sealed.
    pub memtable_sealed: Call<MemTable>,
}

/// A listener of C's.
pub struct Listener {
    owner: Owner,
    calls: Calls,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

impl Listener {
    /// A listener with these functions.
    pub fn new(state: State, destroy: DestroyFn, calls: Calls) -> Listener {
        Listener { owner: Owner { state, destroy }, calls }
    }

    /// The listener for one database, in `dir`.
    pub fn of_database(self: &Arc<Self>, slot: &Arc<Slot>, dir: PathBuf) -> Arc<dyn EventListener> {
        Arc::new(Attached { listener: Arc::clone(self), slot: Arc::clone(slot), dir })
    }
}

struct Attached {
    listener: Arc<Listener>,
    slot: Arc<Slot>,
    dir: PathBuf,
}

impl Attached {
    fn tell<T>(&self, call: DbCall<T>, report: impl FnOnce() -> T) {
        let Some(call) = call else { return };
        let database = std::ptr::with_exposed_provenance_mut(self.slot.address());
        let mut report = report();
        // SAFETY: invariant 4 of ffi; the handle of the database is valid until it is closed, which
        // waits for its jobs.
        unsafe { call(self.listener.owner.state.0, database, &mut report) };
    }
}

impl Attached {
    fn report<T>(&self, call: Call<T>, report: impl FnOnce() -> T) {
        let Some(call) = call else { return };
        let mut report = report();
        // SAFETY: invariant 4 of ffi.
        unsafe { call(self.listener.owner.state.0, &mut report) };
    }
}

impl EventListener for Attached {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        self.tell(self.listener.calls.flush_begin, || FlushInfo::new(info));
    }
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.tell(self.listener.calls.flush_completed, || FlushInfo::new(info));
    }
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        let report = || CompactionInfo::new(info, &self.dir);
        self.tell(self.listener.calls.compaction_begin, report);
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let report = || CompactionInfo::new(info, &self.dir);
        self.tell(self.listener.calls.compaction_completed, report);
    }
    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {
        self.report(self.listener.calls.subcompaction_begin, || SubcompactionInfo::new(info));
    }
    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {
        self.report(self.listener.calls.subcompaction_completed, || SubcompactionInfo::new(info));
    }
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        self.tell(self.listener.calls.ingested, || Ingestion::new(info));
    }
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &Error) {
        self.on_job_error(reason, error);
    }
    /// True if the program resets the status.
    fn on_job_error(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
        let Some(call) = self.listener.calls.background_error else { return false };
        let mut status = Status(Some(error.clone()));
        let state = self.listener.owner.state.0;
        // SAFETY: invariant 4 of ffi.
        unsafe { call(state, background_error_reason(reason), &mut status) };
        status.0.is_none()
    }
    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        self.report(self.listener.calls.stall_changed, || Stall::new(info));
    }
    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        self.report(self.listener.calls.memtable_sealed, || MemTable::new(info));
    }
}
