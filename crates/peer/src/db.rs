//! The database handle: open, write, read.
//!
//! Thread safety: all handles may be used from any thread. Invariants: the crate's, and (4) a
//! column family handle is used only with the database that made it, which it keeps open.

use crate::api::Object;
use crate::batch::WriteBatch;
use crate::family::{ColumnFamily, DbInner, TransactionKind};
use crate::iterator::DbIterator;
use crate::options::{Options, ReadOptions, WriteOptions};
use crate::snapshot::Snapshot;
use crate::{Peer, Result, c_path, c_string};
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// An open database. Clones share it; it closes when the last handle of any kind is dropped.
#[derive(Clone)]
pub struct Db {
    pub(crate) inner: Arc<DbInner>,
    default: ColumnFamily,
}

impl Db {
    /// Opens with the default column family only.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open(options: &Options, path: &Path) -> Result<Db> {
        let name = c_path(path)?;
        let raw = options.peer.checked(|api, error| {
            // SAFETY: live options; RocksDB copies them.
            unsafe { (api.open)(options.raw, name.as_ptr(), error) }
        })?;
        Ok(Db::wrap(&options.peer, raw))
    }

    /// Opens as RocksDB's `DBWithTTL`: values live for `ttl` seconds.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open_with_ttl(options: &Options, path: &Path, ttl: i32) -> Result<Db> {
        let name = c_path(path)?;
        let raw = options.peer.checked(|api, error| {
            // SAFETY: live options; RocksDB copies them.
            unsafe { (api.open_with_ttl)(options.raw, name.as_ptr(), ttl, error) }
        })?;
        Ok(Db::wrap(&options.peer, raw))
    }

    /// Opens for reading only.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open_read_only(options: &Options, path: &Path, error_if_wal: bool) -> Result<Db> {
        let name = c_path(path)?;
        let raw = options.peer.checked(|api, error| {
            // SAFETY: live options; RocksDB copies them.
            unsafe {
                (api.open_for_read_only)(options.raw, name.as_ptr(), error_if_wal.into(), error)
            }
        })?;
        Ok(Db::wrap(&options.peer, raw))
    }

    /// Opens with the named column families, each with its options; handles come in that order.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open_cf(
        options: &Options,
        path: &Path,
        families: &[(&str, &Options)],
        read_only: bool,
    ) -> Result<(Db, Vec<ColumnFamily>)> {
        let name = c_path(path)?;
        let names: Vec<CString> =
            families.iter().map(|(name, _)| c_string(name)).collect::<Result<_>>()?;
        let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let family_options: Vec<Object> = families.iter().map(|(_, options)| options.raw).collect();
        let mut handles = vec![ptr::null_mut(); families.len()];
        let count = families.len() as c_int;
        let raw = options.peer.checked(|api, error| {
            let (names, opts) = (names.as_ptr(), family_options.as_ptr());
            let (options, name, out) = (options.raw, name.as_ptr(), handles.as_mut_ptr());
            // SAFETY: three arrays of `count` elements; RocksDB copies names and options.
            unsafe {
                if read_only {
                    let open = api.open_for_read_only_column_families;
                    open(options, name, count, names, opts, out, 0, error)
                } else {
                    (api.open_column_families)(options, name, count, names, opts, out, error)
                }
            }
        })?;
        let db = Db::wrap(&options.peer, raw);
        let handles = handles.into_iter().map(|raw| db.family(raw)).collect();
        Ok((db, handles))
    }

    /// Opens with the named column families to follow another process; the info log goes to
    /// `secondary_path`. Handles come in that order.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open_as_secondary(
        options: &Options,
        path: &Path,
        secondary_path: &Path,
        families: &[(&str, &Options)],
    ) -> Result<(Db, Vec<ColumnFamily>)> {
        let (name, beside) = (c_path(path)?, c_path(secondary_path)?);
        let names: Vec<CString> =
            families.iter().map(|(name, _)| c_string(name)).collect::<Result<_>>()?;
        let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let family_options: Vec<Object> = families.iter().map(|(_, options)| options.raw).collect();
        let mut handles = vec![ptr::null_mut(); families.len()];
        let raw = options.peer.checked(|api, error| {
            let (count, out) = (families.len() as c_int, handles.as_mut_ptr());
            let (names, opts) = (names.as_ptr(), family_options.as_ptr());
            let (name, beside) = (name.as_ptr(), beside.as_ptr());
            let open = api.open_as_secondary_column_families;
            // SAFETY: three arrays of `count` elements; RocksDB copies names and options.
            unsafe { open(options.raw, name, beside, count, names, opts, out, error) }
        })?;
        let db = Db::wrap(&options.peer, raw);
        let handles = handles.into_iter().map(|raw| db.family(raw)).collect();
        Ok((db, handles))
    }

    /// Reads what the primary has written.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn try_catch_up_with_primary(&self) -> Result<()> {
        let inner = &self.inner;
        inner.peer.checked(|api, error| {
            // SAFETY: live object.
            unsafe { (api.try_catch_up_with_primary)(inner.raw, error) }
        })
    }

    fn wrap(peer: &Peer, raw: Object) -> Db {
        Db::wrap_whole(peer, raw, None)
    }

    /// A database that is part of one with transactions, or not.
    pub(crate) fn wrap_whole(
        peer: &Peer,
        raw: Object,
        whole: Option<(TransactionKind, Object)>,
    ) -> Db {
        let inner = Arc::new(DbInner { peer: peer.clone(), raw, whole });
        // SAFETY: live object; the handle is ours to destroy.
        let handle = unsafe { (peer.api.get_default_column_family_handle)(raw) };
        let default = ColumnFamily::new(inner.clone(), handle);
        Db { inner, default }
    }

    fn family(&self, raw: Object) -> ColumnFamily {
        ColumnFamily::new(self.inner.clone(), raw)
    }

    /// Names of the column families of the database at `path`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn list_column_families(options: &Options, path: &Path) -> Result<Vec<String>> {
        let name = c_path(path)?;
        let mut len = 0;
        let peer = &options.peer;
        let list = peer.checked(|api, error| {
            // SAFETY: live options.
            unsafe { (api.list_column_families)(options.raw, name.as_ptr(), &mut len, error) }
        })?;
        // SAFETY: an array of `len` C strings that is ours to destroy.
        unsafe {
            let names = (0..len)
                .map(|i| CStr::from_ptr(*list.add(i)).to_string_lossy().into_owned())
                .collect();
            (peer.api.list_column_families_destroy)(list, len);
            Ok(names)
        }
    }

    /// Removes the database at `path`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn destroy(options: &Options, path: &Path) -> Result<()> {
        let name = c_path(path)?;
        // SAFETY: live options.
        options
            .peer
            .checked(|api, error| unsafe { (api.destroy_db)(options.raw, name.as_ptr(), error) })
    }

    /// The library that the database runs on.
    pub fn peer(&self) -> &Peer {
        &self.inner.peer
    }

    /// The default column family.
    pub fn default_column_family(&self) -> &ColumnFamily {
        &self.default
    }

    /// Adds a column family.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn create_column_family(&self, options: &Options, name: &str) -> Result<ColumnFamily> {
        let name = c_string(name)?;
        let raw = self.inner.peer.checked(|api, error| {
            let create = api.create_column_family;
            // SAFETY: live objects.
            unsafe { create(self.inner.raw, options.raw, name.as_ptr(), error) }
        })?;
        Ok(self.family(raw))
    }

    /// Drops a column family; its handle stays usable for reading.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn drop_column_family(&self, cf: &ColumnFamily) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            // SAFETY: live objects.
            unsafe { (api.drop_column_family)(self.inner.raw, cf.raw(), error) }
        })
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// RocksDB's.
    #[inline]
    pub fn put(
        &self,
        wo: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            let (db, k, v) = (self.inner.raw, key.as_ptr(), value.as_ptr());
            // SAFETY: live objects (invariant 4); the bytes are copied.
            unsafe { (api.put_cf)(db, wo.raw, cf.raw(), k, key.len(), v, value.len(), error) }
        })
    }

    /// Merges `operand` into `key`.
    ///
    /// # Errors
    /// RocksDB's.
    #[inline]
    pub fn merge(
        &self,
        wo: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            let (db, k, v) = (self.inner.raw, key.as_ptr(), operand.as_ptr());
            // SAFETY: live objects (invariant 4); the bytes are copied.
            unsafe { (api.merge_cf)(db, wo.raw, cf.raw(), k, key.len(), v, operand.len(), error) }
        })
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// RocksDB's.
    #[inline]
    pub fn delete(&self, wo: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            let (db, k) = (self.inner.raw, key.as_ptr());
            // SAFETY: live objects (invariant 4); the bytes are copied.
            unsafe { (api.delete_cf)(db, wo.raw, cf.raw(), k, key.len(), error) }
        })
    }

    /// Removes a `key` that was put once.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn single_delete(&self, wo: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            let (db, k) = (self.inner.raw, key.as_ptr());
            // SAFETY: live objects (invariant 4); the bytes are copied.
            unsafe { (api.singledelete_cf)(db, wo.raw, cf.raw(), k, key.len(), error) }
        })
    }

    /// Removes the keys of `[begin, end)`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn delete_range(
        &self,
        wo: &WriteOptions,
        cf: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
    ) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            let (db, b, e) = (self.inner.raw, begin.as_ptr(), end.as_ptr());
            // SAFETY: live objects (invariant 4); the bytes are copied.
            unsafe {
                (api.delete_range_cf)(db, wo.raw, cf.raw(), b, begin.len(), e, end.len(), error)
            }
        })
    }

    /// Applies `batch` as one.
    ///
    /// # Errors
    /// RocksDB's.
    #[inline]
    pub fn write(&self, wo: &WriteOptions, batch: &WriteBatch) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            // SAFETY: live objects.
            unsafe { (api.write)(self.inner.raw, wo.raw, batch.raw, error) }
        })
    }

    /// Reads `key` into `value`, which is replaced; false when there is no such key.
    ///
    /// The buffer is grown to the value's length and keeps its capacity between calls.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn get(
        &self,
        ro: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        loop {
            value.clear();
            let (mut len, mut found) = (0usize, 0u8);
            let copied = self.inner.peer.checked(|api, error| {
                let (db, k, capacity) = (self.inner.raw, key.as_ptr(), value.capacity());
                let (out, len, found) = (value.as_mut_ptr(), &mut len, &mut found);
                let get = api.get_into_buffer_cf;
                // SAFETY: live objects; `out` has room for `capacity` bytes.
                unsafe {
                    get(db, ro.0.raw, cf.raw(), k, key.len(), out, capacity, len, found, error)
                }
            })?;
            if found == 0 {
                return Ok(false);
            }
            if copied != 0 {
                // SAFETY: RocksDB wrote `len` bytes, which fit the capacity.
                unsafe { value.set_len(len) };
                return Ok(true);
            }
            value.reserve(len);
        }
    }

    /// Reads many keys of one column family; `each` gets the index and the value of every hit.
    ///
    /// # Errors
    /// The first failing key's.
    pub fn multi_get(
        &self,
        ro: &ReadOptions,
        cf: &ColumnFamily,
        keys: &[&[u8]],
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let starts: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
        let lens: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut values: Vec<Object> = vec![ptr::null_mut(); keys.len()];
        let mut errors: Vec<*mut c_char> = vec![ptr::null_mut(); keys.len()];
        let api = &self.inner.peer.api;
        let (k, l, v, e) =
            (starts.as_ptr(), lens.as_ptr(), values.as_mut_ptr(), errors.as_mut_ptr());
        // SAFETY: live objects and four arrays of `keys.len()` elements.
        unsafe {
            let get = api.batched_multi_get_cf;
            get(self.inner.raw, ro.0.raw, cf.raw(), keys.len(), k, l, v, e, false);
        }
        let mut result = Ok(());
        for (index, (value, error)) in values.into_iter().zip(errors).enumerate() {
            if !error.is_null() {
                let error = self.inner.peer.take_error(error);
                result = result.and(Err(error));
            }
            if !value.is_null() {
                let mut len = 0;
                // SAFETY: a live pinned slice, ours to destroy; its bytes live until then.
                unsafe {
                    let data = (api.pinnableslice_value)(value, &mut len);
                    let bytes = if len == 0 { &[] } else { std::slice::from_raw_parts(data, len) };
                    each(index, bytes);
                    (api.pinnableslice_destroy)(value);
                }
            }
        }
        result
    }

    /// A cursor over `cf`.
    pub fn iter(&self, ro: &ReadOptions, cf: &ColumnFamily) -> DbIterator {
        DbIterator::new(self.inner.clone(), cf.clone(), ro.clone())
    }

    /// The current state, kept readable.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.inner.clone())
    }
}
