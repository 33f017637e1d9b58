//! The Python package `pumice`: databases as mappings from bytes to bytes, with RocksDB's calls.
//!
//! | module | what |
//! |---|---|
//! | `handles` | the classes: `DB`, `ColumnFamily`, `Snapshot`, `WriteBatch`, iterators |
//! | `bytes` | arguments that are bytes; exceptions |
//!
//! Every call that may wait for a disk or a lock releases the GIL. Thread safety: every class may
//! be used from any thread; two threads that move one iterator take turns.
#![deny(unsafe_code)] // Not forbid: what PyO3's macros make allows it.
#![warn(missing_docs)]

mod bytes;
mod handles;

use handles::{batch, database, scan, store};
use pyo3::prelude::*;

/// The compiled half of the package `pumice`.
#[pymodule]
fn _pumice(module: &Bound<'_, PyModule>) -> PyResult<()> {
    pumice_port::fiber::leave_signals_alone();
    module.add_class::<store::Store>()?;
    module.add_class::<database::Database>()?;
    module.add_class::<database::Family>()?;
    module.add_class::<database::SnapshotView>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<scan::Scan>()?;
    module.add("Error", module.py().get_type::<bytes::Error>())?;
    module.add("Corruption", module.py().get_type::<bytes::Corruption>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
