//! What a database, a column family and a snapshot have in common: a mapping from bytes to bytes.
//!
//! A [`Store`] is a database, one of its column families, and maybe a snapshot, which makes it
//! read-only. Thread safety: plain handles; calls release the GIL.

use pumice::{ColumnFamily, Db, ReadOptions, Snapshot, WriteOptions};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::scan::{Part, Scan};
use crate::bytes::{failed, input, optional};

/// Reads, writes and scans.
#[pyclass(subclass, frozen, module = "pumice", name = "Store")]
pub struct Store {
    /// The database.
    pub db: Db,
    /// The column family.
    pub cf: ColumnFamily,
    /// The state that is read; None for the newest one.
    pub snapshot: Option<Snapshot>,
}

impl Store {
    /// Options of a read.
    pub fn reading(&self) -> ReadOptions {
        ReadOptions { snapshot: self.snapshot.clone(), ..ReadOptions::default() }
    }

    fn writable(&self) -> PyResult<()> {
        match self.snapshot {
            Some(_) => Err(PyTypeError::new_err("a snapshot is only read")),
            None => Ok(()),
        }
    }

    fn find<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = input(key)?;
        let found = py.detach(|| match &self.snapshot {
            None => self.db.get_cf(&self.cf, &*key),
            Some(_) => self.db.get_cf_opt(&self.reading(), &self.cf, &*key),
        });
        Ok(found.map_err(failed)?.map(|value| PyBytes::new(py, &value)))
    }

    fn scan(
        &self,
        part: Part,
        bounds: (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
        reverse: bool,
    ) -> PyResult<Scan> {
        let (start, end, prefix) = bounds;
        let (start, end, prefix) = (optional(start)?, optional(end)?, optional(prefix)?);
        Scan::new(self, part, (start.as_deref(), end.as_deref(), prefix.as_deref()), reverse)
    }
}

#[pymethods]
impl Store {
    /// The value of `key`, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, key)?.map(Bound::into_any).or(default))
    }

    /// The values of `keys`, all as of one moment; None for a key that is not there.
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keys: Vec<_> = keys.try_iter()?.collect::<PyResult<_>>()?;
        let keys: Vec<_> = keys.iter().map(input).collect::<PyResult<_>>()?;
        let keys: Vec<_> = keys.iter().map(|key| (&self.cf, &**key)).collect();
        let found = py.detach(|| self.db.multi_get_cf_opt(&self.reading(), &keys));
        let list = PyList::empty(py);
        for value in found {
            list.append(value.map_err(failed)?.map(|value| PyBytes::new(py, &value)))?;
        }
        Ok(list)
    }

    /// Writes an entry; with `sync` it is on the disk when the call returns.
    #[pyo3(signature = (key, value, *, sync=false))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        sync: bool,
    ) -> PyResult<()> {
        self.writable()?;
        let (key, value) = (input(key)?, input(value)?);
        let options = WriteOptions { sync, ..WriteOptions::default() };
        py.detach(|| self.db.put_cf_opt(&options, &self.cf, &*key, &*value)).map_err(failed)
    }

    /// Deletes `key`; it need not be there.
    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>, sync: bool) -> PyResult<()> {
        self.writable()?;
        let key = input(key)?;
        let options = WriteOptions { sync, ..WriteOptions::default() };
        py.detach(|| self.db.delete_cf_opt(&options, &self.cf, &*key)).map_err(failed)
    }

    /// Deletes the keys from `begin` up to `end`, which stays.
    fn delete_range(
        &self,
        py: Python<'_>,
        begin: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.writable()?;
        let (begin, end) = (input(begin)?, input(end)?);
        py.detach(|| self.db.delete_range_cf(&self.cf, &*begin, &*end)).map_err(failed)
    }

    /// Writes a merge operand; the database has to have a merge operator.
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.writable()?;
        let (key, operand) = (input(key)?, input(operand)?);
        py.detach(|| self.db.merge_cf(&self.cf, &*key, &*operand)).map_err(failed)
    }

    /// Entries in the order of their keys: from `start` up to `end`, which is not among them, or
    /// those that begin with `prefix`; backwards with `reverse`.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn items(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Scan> {
        self.scan(Part::Items, (start, end, prefix), reverse)
    }

    /// The keys alone, see `items`.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn keys(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Scan> {
        self.scan(Part::Keys, (start, end, prefix), reverse)
    }

    /// The values alone, see `items`.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn values(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Scan> {
        self.scan(Part::Values, (start, end, prefix), reverse)
    }

    /// Writes everything from memory into table files.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.writable()?;
        py.detach(|| self.db.flush_cf(&self.cf)).map_err(failed)
    }

    /// Compacts the keys from `start` up to `end`, or all of them.
    #[pyo3(signature = (start=None, end=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.writable()?;
        let (start, end) = (optional(start)?, optional(end)?);
        let options = pumice::CompactRangeOptions::default();
        let (start, end) = (start.as_deref(), end.as_deref());
        py.detach(|| self.db.compact_range_cf(&options, &self.cf, start, end)).map_err(failed)
    }

    /// A property by RocksDB's name, such as `rocksdb.stats`; None for one that is not known.
    fn property(&self, py: Python<'_>, name: &str) -> Option<String> {
        py.detach(|| self.db.property_cf(&self.cf, name))
    }

    /// Changes options by name while the database is open.
    fn set_options(&self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        self.writable()?;
        let options = crate::bytes::options(Some(options))?;
        let changes: Vec<_> = options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        py.detach(|| self.db.set_options_cf(&self.cf, &changes)).map_err(failed)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.find(py, key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, key, value, false)
    }

    /// As a dict's, it fails for a key that is not there.
    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.find(py, key)? {
            Some(_) => self.delete(py, key, false),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(py, key)?.is_some())
    }

    fn __iter__(&self) -> PyResult<Scan> {
        self.scan(Part::Keys, (None, None, None), false)
    }
}
