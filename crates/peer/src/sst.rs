//! Writing table files outside a database.
//!
//! Thread safety: one thread at a time. Invariants: the crate's.

use crate::api::Object;
use crate::options::Options;
use crate::{Result, c_path};
use std::path::Path;

/// Writes one table file with keys in ascending order.
pub struct SstFileWriter {
    options: Options,
    env: Object,
    raw: Object,
}

// SAFETY: the C object has no thread affinity.
unsafe impl Send for SstFileWriter {}

impl SstFileWriter {
    /// A writer with `options`.
    pub fn new(options: &Options) -> Self {
        let options = options.clone();
        let api = &options.peer.api;
        // SAFETY: plain constructors; the fields keep both arguments alive (crate invariant 2).
        let (env, raw) = unsafe {
            let env = (api.envoptions_create)();
            (env, (api.sstfilewriter_create)(env, options.raw))
        };
        SstFileWriter { options, env, raw }
    }

    /// Creates the file.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(&mut self, path: &Path) -> Result<()> {
        let path = c_path(path)?;
        self.options.peer.checked(|api, error| {
            // SAFETY: live object.
            unsafe { (api.sstfilewriter_open)(self.raw, path.as_ptr(), error) }
        })
    }

    /// Adds a put.
    ///
    /// # Errors
    /// The key is out of order, or the write failed.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.options.peer.checked(|api, error| {
            let (k, v) = (key.as_ptr(), value.as_ptr());
            // SAFETY: live object; the bytes are copied.
            unsafe { (api.sstfilewriter_put)(self.raw, k, key.len(), v, value.len(), error) }
        })
    }

    /// Adds a merge operand.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`].
    pub fn merge(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.options.peer.checked(|api, error| {
            let (k, v) = (key.as_ptr(), value.as_ptr());
            // SAFETY: live object; the bytes are copied.
            unsafe { (api.sstfilewriter_merge)(self.raw, k, key.len(), v, value.len(), error) }
        })
    }

    /// Adds a delete.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.options.peer.checked(|api, error| {
            // SAFETY: live object; the bytes are copied.
            unsafe { (api.sstfilewriter_delete)(self.raw, key.as_ptr(), key.len(), error) }
        })
    }

    /// Adds a range deletion of `[begin, end)`.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`].
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.options.peer.checked(|api, error| {
            let (b, e) = (begin.as_ptr(), end.as_ptr());
            // SAFETY: live object; the bytes are copied.
            unsafe {
                (api.sstfilewriter_delete_range)(self.raw, b, begin.len(), e, end.len(), error)
            }
        })
    }

    /// Writes the index and closes the file.
    ///
    /// # Errors
    /// The write failed, or nothing was added.
    pub fn finish(&mut self) -> Result<()> {
        self.options.peer.checked(|api, error| {
            // SAFETY: live object.
            unsafe { (api.sstfilewriter_finish)(self.raw, error) }
        })
    }
}

impl Drop for SstFileWriter {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1.
        unsafe {
            (self.options.peer.api.sstfilewriter_destroy)(self.raw);
            (self.options.peer.api.envoptions_destroy)(self.env);
        }
    }
}
