//! Keys with timestamps: writes and reads at one, and how far back reads go.
//!
//! Thread safety and invariants: the crate's.

use crate::api::{ErrorOut, Object};
use crate::{ColumnFamily, Db, ReadOptions, Result, WriteOptions};
use std::ffi::c_char;
use std::ptr::{null_mut, slice_from_raw_parts};

/// A deletion at a timestamp.
type Delete =
    unsafe extern "C" fn(Object, Object, Object, *const u8, usize, *const u8, usize, ErrorOut);

impl Db {
    /// Stores a value in `cf` as of `timestamp`; the comparator of `cf` has timestamps.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn put_at(
        &self,
        wo: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        timestamp: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let (t, t_len) = (timestamp.as_ptr(), timestamp.len());
        self.inner.peer.checked(|api, error| {
            let (k, v) = (key.as_ptr(), value.as_ptr());
            let put = api.put_cf_with_ts;
            let (db, wo, cf) = (self.inner.raw, wo.raw, cf.raw());
            // SAFETY: live objects; the bytes are read during the call.
            unsafe { put(db, wo, cf, k, key.len(), t, t_len, v, value.len(), error) };
        })
    }

    /// Deletes `key` of `cf` as of `timestamp`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn delete_at(
        &self,
        wo: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        timestamp: &[u8],
    ) -> Result<()> {
        self.remove_at(self.inner.peer.api.delete_cf_with_ts, wo, cf, (key, timestamp))
    }

    /// Deletes `key` of `cf`, which was put once, as of `timestamp`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn single_delete_at(
        &self,
        wo: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        timestamp: &[u8],
    ) -> Result<()> {
        self.remove_at(self.inner.peer.api.singledelete_cf_with_ts, wo, cf, (key, timestamp))
    }

    fn remove_at(
        &self,
        remove: Delete,
        wo: &WriteOptions,
        cf: &ColumnFamily,
        (key, timestamp): (&[u8], &[u8]),
    ) -> Result<()> {
        let (t, t_len) = (timestamp.as_ptr(), timestamp.len());
        self.inner.peer.checked(|_, error| {
            let (db, wo, cf) = (self.inner.raw, wo.raw, cf.raw());
            // SAFETY: live objects; the bytes are read during the call.
            unsafe { remove(db, wo, cf, key.as_ptr(), key.len(), t, t_len, error) };
        })
    }

    /// The value of `key` in `cf`, with its timestamp, as of the one of `ro`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn get_at(
        &self,
        ro: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let (mut len, mut time, mut time_len) = (0, null_mut(), 0);
        let mut value = null_mut();
        self.inner.peer.checked(|api, error| {
            let (db, ro, cf) = (self.inner.raw, ro.0.raw, cf.raw());
            let (k, k_len) = (key.as_ptr(), key.len());
            let outs = (&raw mut len, &raw mut time, &raw mut time_len);
            let get = api.get_cf_with_ts;
            // SAFETY: live objects, and out-parameters of this frame.
            value = unsafe { get(db, ro, cf, k, k_len, outs.0, outs.1, outs.2, error) };
        })?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: both were allocated for us, with these lengths.
        Ok(Some(unsafe { (self.taken(value, len), self.taken(time, time_len)) }))
    }

    /// Versions of `cf` below `timestamp` may go, but for the newest of each key.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn increase_full_history_ts_low(&self, cf: &ColumnFamily, timestamp: &[u8]) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            let (t, t_len) = (timestamp.as_ptr(), timestamp.len());
            let raise = api.increase_full_history_ts_low;
            // SAFETY: live objects; the bytes are copied.
            unsafe { raise(self.inner.raw, cf.raw(), t, t_len, error) };
        })
    }

    /// The timestamp up to which it was raised; empty if it never was.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn full_history_ts_low(&self, cf: &ColumnFamily) -> Result<Vec<u8>> {
        let (mut len, mut low) = (0, null_mut());
        self.inner.peer.checked(|api, error| {
            let get = api.get_full_history_ts_low;
            // SAFETY: live objects, and an out-parameter of this frame.
            low = unsafe { get(self.inner.raw, cf.raw(), &raw mut len, error) };
        })?;
        // SAFETY: it was allocated for us, with this length.
        Ok(unsafe { self.taken(low, len) })
    }

    /// Copies what was allocated for the caller, and frees it.
    ///
    /// # Safety
    /// `data` is null, or `len` bytes that the caller owns.
    unsafe fn taken(&self, data: *mut c_char, len: usize) -> Vec<u8> {
        if data.is_null() {
            return Vec::new();
        }
        let bytes = slice_from_raw_parts(data.cast::<u8>(), len);
        // SAFETY: as the caller promises.
        unsafe {
            let copy = (*bytes).to_vec();
            (self.inner.peer.api.free)(data.cast());
            copy
        }
    }
}
