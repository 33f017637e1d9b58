//! Filters of logs.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_ulonglong, c_void};
use std::path::Path;

use pumice::options::{WalFilter, WalProcessing};
use pumice_binding::batch::Batch;

use super::callback::{Owner, data};
use super::handle;

/// Told of log numbers by id, their count, names with lengths, their ids, and their count.
pub type LogNumbersFn = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const u32,
        *const u64,
        usize,
        *const *const c_char,
        *const usize,
        *const u32,
        usize,
    ),
>;
/// Decides: number and path of the log, the record, a batch to fill, and whether it was filled.
pub type RecordFn = Option<
    unsafe extern "C" fn(
        *mut c_void,
        c_ulonglong,
        *const c_char,
        usize,
        *mut Batch,
        *mut Batch,
        *mut u8,
    ) -> c_int,
>;

/// A filter of C's.
pub struct CWalFilter {
    /// The program's state.
    pub owner: Owner,
    /// Its functions.
    pub log_numbers: LogNumbersFn,
    /// See [`RecordFn`].
    pub record: RecordFn,
    /// Its name.
    pub name: String,
}

impl WalFilter for CWalFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn column_family_log_number_map(
        &self,
        log_numbers: &BTreeMap<u32, u64>,
        ids: &BTreeMap<String, u32>,
    ) {
        let Some(call) = self.log_numbers else { return };
        let (keys, numbers): (Vec<u32>, Vec<u64>) = log_numbers.iter().unzip();
        let names: Vec<*const c_char> = ids.keys().map(|name| data(name.as_bytes())).collect();
        let lengths: Vec<usize> = ids.keys().map(String::len).collect();
        let of_names: Vec<u32> = ids.values().copied().collect();
        // SAFETY: invariant 4 of ffi; the lists are borrowed for the call.
        unsafe {
            call(
                self.owner.state.0,
                keys.as_ptr(),
                numbers.as_ptr(),
                keys.len(),
                names.as_ptr(),
                lengths.as_ptr(),
                of_names.as_ptr(),
                of_names.len(),
            );
        }
    }

    fn log_record_found(&self, log_number: u64, log_file: &Path, record: &[u8]) -> WalProcessing {
        let Some(call) = self.record else { return WalProcessing::ContinueProcessing };
        let Ok(batch) = Batch::from_log(record) else { return WalProcessing::CorruptedRecord };
        let path = log_file.as_os_str().as_encoded_bytes();
        let text = CString::new(path).unwrap_or_default();
        let (batch, fresh) = (handle::give(batch), handle::give(Batch::default()));
        let mut changed = 0;
        // SAFETY: invariant 4 of ffi; the batches are handles of this call, which takes them back.
        let (decision, fresh) = unsafe {
            let decision = call(
                self.owner.state.0,
                log_number,
                text.as_ptr(),
                path.len(),
                batch,
                fresh,
                &mut changed,
            );
            drop(handle::take("rocksdb_walfilter_create", batch));
            (decision, handle::take("rocksdb_walfilter_create", fresh))
        };
        match (decision, fresh) {
            (0, Some(fresh)) if changed != 0 => {
                WalProcessing::Replace(fresh.updates.data().to_vec())
            }
            (0, _) => WalProcessing::ContinueProcessing,
            (1, _) => WalProcessing::IgnoreCurrentRecord,
            (2, _) => WalProcessing::StopReplay,
            _ => WalProcessing::CorruptedRecord,
        }
    }
}
