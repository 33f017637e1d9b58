//! `WriteBatch`: updates that take effect together or not at all.
//!
//! Thread safety: a lock; no call waits while it holds it but `write`.

use pumice::WriteBatch;
use pumice_port::sync::{Mutex, MutexGuard};
use pyo3::prelude::*;

use super::database::Family;
use crate::bytes::input;

/// Updates for one or more column families.
#[pyclass(frozen, module = "pumice", name = "WriteBatch")]
pub struct Batch {
    batch: Mutex<WriteBatch>,
}

impl Batch {
    /// The updates.
    pub fn lock(&self) -> MutexGuard<'_, WriteBatch> {
        self.batch.lock()
    }
}

/// The number of a column family; the default one has 0.
fn id(family: Option<&Bound<'_, Family>>) -> u32 {
    family.map_or(0, |family| family.as_super().get().cf.id())
}

#[pymethods]
impl Batch {
    #[new]
    fn new() -> Batch {
        Batch { batch: Mutex::new(WriteBatch::new()) }
    }

    /// Adds an entry.
    #[pyo3(signature = (key, value, family=None))]
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<()> {
        let (key, value) = (input(key)?, input(value)?);
        self.lock().put_cf(id(family), &*key, &*value);
        Ok(())
    }

    /// Adds a deletion.
    #[pyo3(signature = (key, family=None))]
    fn delete(&self, key: &Bound<'_, PyAny>, family: Option<&Bound<'_, Family>>) -> PyResult<()> {
        let key = input(key)?;
        self.lock().delete_cf(id(family), &*key);
        Ok(())
    }

    /// Adds a deletion of the keys from `begin` up to `end`, which stays.
    #[pyo3(signature = (begin, end, family=None))]
    fn delete_range(
        &self,
        begin: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<()> {
        let (begin, end) = (input(begin)?, input(end)?);
        self.lock().delete_range_cf(id(family), &*begin, &*end);
        Ok(())
    }

    /// Adds a merge operand.
    #[pyo3(signature = (key, operand, family=None))]
    fn merge(
        &self,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<()> {
        let (key, operand) = (input(key)?, input(operand)?);
        self.lock().merge_cf(id(family), &*key, &*operand);
        Ok(())
    }

    /// Removes all updates.
    fn clear(&self) {
        self.lock().clear();
    }

    fn __len__(&self) -> usize {
        self.lock().count() as usize
    }
}
