//! Compaction services of C.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use pumice::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceScheduleResponse,
};
use pumice_binding::reports;
use pumice_binding::store::{Fields, Plain, Store};
use pumice_port::os::c_memory;

use super::callback::{Owner, data};
use super::handle;
use crate::ffi::generated::{
    rocksdb_compactionservice_jobinfo_t, rocksdb_compactionservice_scheduleresponse_t,
};
use crate::ffi::types::Options;

/// Takes a job: what it is, the input, its length; null for a failure.
pub type ScheduleFn = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *mut rocksdb_compactionservice_jobinfo_t,
        *const c_char,
        usize,
    ) -> *mut rocksdb_compactionservice_scheduleresponse_t,
>;
/// Waits for a job: its id, the result in a block that is the caller's, its length.
pub type WaitFn =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_char, *mut usize) -> c_int>;
/// The database closes.
pub type CancelFn = Option<unsafe extern "C" fn(*mut c_void)>;
/// Told of an installation: the job's id, and the status.
pub type InstallationFn = Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int)>;

/// A service of C's. Without a function for the first two everything is done here.
pub struct CService {
    /// The program's state.
    pub owner: Owner,
    /// Its name.
    pub name: String,
    /// See [`ScheduleFn`].
    pub schedule: ScheduleFn,
    /// See [`WaitFn`].
    pub wait: WaitFn,
    /// See [`CancelFn`].
    pub cancel: CancelFn,
    /// See [`InstallationFn`].
    pub installation: InstallationFn,
}

/// What does compactions elsewhere.
pub struct Service(pub Arc<CService>);

/// The objects of a worker.
#[derive(Clone, Debug, Default)]
pub struct ServiceOverride {
    /// The objects.
    pub options: Options,
    /// Settings by name.
    pub options_map: BTreeMap<String, String>,
}

/// Options of `open_and_compact`.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    store: Store,
    /// Ends the call.
    pub canceled: Option<pumice::CancelFlag>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions { store: Store::named("open_and_compact_options"), canceled: None }
    }
}

impl Fields for WorkerOptions {
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

fn status(number: i64) -> Status {
    match number {
        0 => Status::Success,
        2 => Status::Aborted,
        3 => Status::UseLocal,
        _ => Status::Failure,
    }
}

/// A job's name as the program gave it, any bytes: the engine has a character for each.
fn job_name(id: &str) -> CString {
    let bytes = id.chars().filter_map(|byte| u8::try_from(u32::from(byte)).ok());
    CString::new(bytes.collect::<Vec<u8>>()).unwrap_or_default()
}

fn job_info(info: &CompactionServiceJobInfo) -> Store {
    let mut store = Store::named("compactionservice_jobinfo");
    store.put_text("db_name", &info.db_name);
    store.put_text("db_id", &info.db_id);
    store.put_text("db_session_id", &info.db_session_id);
    store.put_text("cf_name", &info.cf_name);
    store.put("cf_id", info.cf_id.into());
    store.put("job_id", info.job_id);
    store.put_int("priority", info.priority.into());
    store.put("compaction_reason", reports::compaction_reason(info.compaction_reason));
    store.put_int("base_input_level", info.base_input_level.into());
    store.put_int("output_level", info.output_level.into());
    store.put("is_full_compaction", info.is_full_compaction.into());
    store.put("is_manual_compaction", info.is_manual_compaction.into());
    store.put("bottommost_level", info.bottommost_level.into());
    store
}

impl CompactionService for CService {
    fn name(&self) -> &str {
        &self.name
    }

    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        let answer = |status, job: &[u8]| CompactionServiceScheduleResponse {
            scheduled_job_id: job.iter().copied().map(char::from).collect(),
            status,
        };
        let Some(call) = self.schedule else { return answer(Status::UseLocal, b"") };
        let info = handle::give(Plain(job_info(info)));
        // SAFETY: invariant 4 of ffi; the handle is taken back after the call, and the answer is a
        // handle that is given away with it.
        let response = unsafe {
            let response = call(self.owner.state.0, info, data(input), input.len());
            drop(handle::take::<rocksdb_compactionservice_jobinfo_t>("schedule", info));
            match response.is_null() {
                true => None,
                false => handle::take("schedule", response),
            }
        };
        let Some(response) = response else { return answer(Status::Failure, b"") };
        let store = response.store();
        answer(status(store.int("status")), store.text("scheduled_job_id"))
    }

    fn wait(&self, scheduled_job_id: &str) -> (Status, Vec<u8>) {
        let Some(call) = self.wait else { return (Status::UseLocal, Vec::new()) };
        let id = job_name(scheduled_job_id);
        let (mut block, mut length) = (std::ptr::null_mut(), 0);
        // SAFETY: invariant 4 of ffi; the block is this call's, which frees it.
        unsafe {
            let number = call(self.owner.state.0, id.as_ptr(), &mut block, &mut length);
            let result = super::from::bytes(block, length).unwrap_or_default().to_vec();
            c_memory::free(block.cast());
            (status(number.into()), result)
        }
    }

    fn cancel_awaiting_jobs(&self) {
        if let Some(call) = self.cancel {
            // SAFETY: invariant 4 of ffi.
            unsafe { call(self.owner.state.0) };
        }
    }

    fn on_installation(&self, scheduled_job_id: &str, status: Status) {
        if let Some(call) = self.installation {
            let id = job_name(scheduled_job_id);
            // SAFETY: invariant 4 of ffi; the text is valid during the call.
            unsafe { call(self.owner.state.0, id.as_ptr(), status as c_int) };
        }
    }
}
