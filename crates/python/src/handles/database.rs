//! `DB`, `ColumnFamily` and `Snapshot`.
//!
//! Thread safety: plain handles; calls release the GIL.

use std::path::PathBuf;

use pumice::{Db, Options, WriteOptions};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::batch::Batch;
use super::store::Store;
use crate::bytes::{failed, options};

/// An open database, and its default column family.
#[pyclass(extends = Store, frozen, module = "pumice", name = "DB")]
pub struct Database;

/// A column family of an open database.
#[pyclass(extends = Store, frozen, module = "pumice", name = "ColumnFamily")]
pub struct Family;

/// What the database, or a column family, held at one moment. Only read.
#[pyclass(extends = Store, frozen, module = "pumice", name = "Snapshot")]
pub struct SnapshotView;

/// The default column family.
fn whole(db: Db) -> Store {
    let cf = db.default_column_family().clone();
    Store { db, cf, snapshot: None }
}

#[pymethods]
impl Database {
    /// Opens the database in the directory `path`, with all of its column families.
    #[new]
    #[pyo3(signature = (
        path, options=None, *, create_if_missing=true, read_only=false, secondary_path=None
    ))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
        create_if_missing: bool,
        read_only: bool,
        secondary_path: Option<PathBuf>,
    ) -> PyResult<PyClassInitializer<Database>> {
        let settings = crate::bytes::options(options)?;
        let mut builder = Db::builder(path).all_column_families();
        builder = match (read_only, secondary_path) {
            (_, Some(beside)) => builder.secondary(beside),
            (true, None) => builder.read_only(),
            (false, None) => builder.create(create_if_missing),
        };
        for (name, value) in settings {
            builder = builder.set(name, value);
        }
        let db = py.detach(|| builder.open()).map_err(failed)?;
        Ok(PyClassInitializer::from(whole(db)).add_subclass(Database))
    }

    /// Takes effect whole or not at all; with `sync` it is on the disk when the call returns.
    #[pyo3(signature = (batch, *, sync=false, disable_wal=false))]
    fn write(
        slf: &Bound<'_, Self>,
        batch: &Bound<'_, Batch>,
        sync: bool,
        disable_wal: bool,
    ) -> PyResult<()> {
        let options = WriteOptions { sync, disable_wal, ..WriteOptions::default() };
        let (store, batch) = (slf.as_super().get(), batch.get());
        slf.py().detach(|| store.db.write_opt(&options, &mut batch.lock())).map_err(failed)
    }

    /// The column family `name`, which exists.
    fn column_family(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<Family>> {
        let store = slf.as_super().get();
        let cf = store.db.column_family(name);
        let cf = cf.ok_or_else(|| PyKeyError::new_err(name.to_string()))?;
        family(slf.py(), store, cf)
    }

    /// Makes the column family `name`.
    #[pyo3(signature = (name, options=None))]
    fn create_column_family(
        slf: &Bound<'_, Self>,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<Family>> {
        let store = slf.as_super().get();
        let mut own = Options::default();
        for (name, value) in crate::bytes::options(options)? {
            own.set(&name, &value).map_err(failed)?;
        }
        let made = slf.py().detach(|| store.db.create_column_family(&own.cf, name));
        family(slf.py(), store, made.map_err(failed)?)
    }

    /// Drops a column family and what is in it.
    fn drop_column_family(slf: &Bound<'_, Self>, family: &Bound<'_, Family>) -> PyResult<()> {
        let (store, family) = (slf.as_super().get(), family.as_super().get());
        slf.py().detach(|| store.db.drop_column_family(&family.cf)).map_err(failed)
    }

    /// Makes a copy that opens as a database, in the directory `path`, which must not exist.
    fn checkpoint(slf: &Bound<'_, Self>, path: PathBuf) -> PyResult<()> {
        let store = slf.as_super().get();
        slf.py().detach(|| store.db.checkpoint(path)).map_err(failed)
    }

    /// What the database holds now.
    fn snapshot(slf: &Bound<'_, Self>) -> PyResult<Py<SnapshotView>> {
        let store = slf.as_super().get();
        let snapshot = slf.py().detach(|| store.db.snapshot());
        let view = Store { snapshot: Some(snapshot), ..whole(store.db.clone()) };
        Py::new(slf.py(), PyClassInitializer::from(view).add_subclass(SnapshotView))
    }

    /// Writes the log to the disk.
    fn sync_wal(slf: &Bound<'_, Self>) -> PyResult<()> {
        let store = slf.as_super().get();
        slf.py().detach(|| store.db.sync_wal()).map_err(failed)
    }

    /// The number of the newest write.
    fn latest_sequence_number(slf: &Bound<'_, Self>) -> u64 {
        slf.as_super().get().db.latest_sequence_number()
    }

    /// The directory.
    #[getter]
    fn path(slf: &Bound<'_, Self>) -> PathBuf {
        slf.as_super().get().db.path().to_path_buf()
    }

    /// Closes the database: later writes fail, and reads answer from its last state.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let store = slf.as_super().get();
        slf.py().detach(|| store.db.close()).map_err(failed)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        Database::close(slf)
    }

    /// The names of the column families of a database that need not be open.
    #[staticmethod]
    fn list_column_families(py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
        let options = pumice::DbOptions::default();
        py.detach(|| Db::list_column_families(&options, path)).map_err(failed)
    }

    /// Deletes the files of a database that is not open.
    #[staticmethod]
    fn destroy(py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| Db::destroy(&Options::default(), path)).map_err(failed)
    }

    /// Makes a database that opens of what is left of a damaged one, and says what was saved.
    #[staticmethod]
    #[pyo3(signature = (path, options=None))]
    fn repair(
        py: Python<'_>,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let mut own = Options::default();
        for (name, value) in self::options(options)? {
            own.set(&name, &value).map_err(failed)?;
        }
        let report = py.detach(|| pumice::repair(&own, path)).map_err(failed)?;
        Ok(report.to_string())
    }
}

fn family(py: Python<'_>, store: &Store, cf: pumice::ColumnFamily) -> PyResult<Py<Family>> {
    let store = Store { db: store.db.clone(), cf, snapshot: None };
    Py::new(py, PyClassInitializer::from(store).add_subclass(Family))
}

#[pymethods]
impl Family {
    /// The name.
    #[getter]
    fn name(slf: &Bound<'_, Self>) -> String {
        slf.as_super().get().cf.name().to_string()
    }

    /// What the column family holds now.
    fn snapshot(slf: &Bound<'_, Self>) -> PyResult<Py<SnapshotView>> {
        let store = slf.as_super().get();
        let snapshot = slf.py().detach(|| store.db.snapshot());
        let view = Store { db: store.db.clone(), cf: store.cf.clone(), snapshot: Some(snapshot) };
        Py::new(slf.py(), PyClassInitializer::from(view).add_subclass(SnapshotView))
    }
}

#[pymethods]
impl SnapshotView {
    /// The number of the newest write that is seen.
    #[getter]
    fn sequence_number(slf: &Bound<'_, Self>) -> u64 {
        let snapshot = slf.as_super().get().snapshot.as_ref();
        snapshot.map_or(0, pumice::Snapshot::sequence_number)
    }
}
