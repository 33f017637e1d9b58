//! Iterators over entries.
//!
//! Entries are read ahead without the GIL into one buffer, one entry first and then twice as many
//! each time, up to 512 or 256 KiB, so that a loop that stops early has read little.
//!
//! Thread safety: a lock that threads hold while they take an entry; who waits for it releases the
//! GIL. Under the lock only `bytes` are made, which runs no code of Python's.

use pumice::{DbIterator, ReadOptions};
use pumice_port::sync::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::store::Store;
use crate::bytes::failed;

/// Entries read at once, at most.
const AHEAD_MAX: usize = 512;
/// Bytes read at once; the entry that reaches them is the last one.
const AHEAD_BYTES: usize = 256 << 10;

/// What an iterator gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Pairs.
    Items,
    /// Keys.
    Keys,
    /// Values.
    Values,
}

/// Where a scan begins, where it ends, and what its keys begin with.
type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, Option<&'a [u8]>);

struct State {
    cursor: DbIterator,
    /// The first move comes next.
    is_fresh: bool,
    /// There is nothing more to read.
    is_over: bool,
    /// Keys and values that were read, one after the other.
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
    /// The next one of `ends`, and where its key begins.
    at: usize,
    from: usize,
    ahead: usize,
}

impl State {
    /// Reads ahead.
    fn fill(&mut self, reverse: bool) {
        self.bytes.clear();
        self.ends.clear();
        (self.at, self.from) = (0, 0);
        while !self.is_over && self.ends.len() < self.ahead && self.bytes.len() < AHEAD_BYTES {
            match (std::mem::take(&mut self.is_fresh), reverse) {
                (true, false) => self.cursor.seek_to_first(),
                (true, true) => self.cursor.seek_to_last(),
                (false, false) => self.cursor.next(),
                (false, true) => self.cursor.prev(),
            }
            let (Some(key), Some(value)) = (self.cursor.key(), self.cursor.value()) else {
                // What was read before an error comes first; then the cursor still has it.
                self.is_over = true;
                break;
            };
            self.bytes.extend_from_slice(key);
            let key_end = self.bytes.len();
            self.bytes.extend_from_slice(value);
            self.ends.push((key_end, self.bytes.len()));
        }
        self.ahead = (self.ahead * 2).min(AHEAD_MAX);
    }

    /// The next entry that was read.
    fn take(&mut self) -> Option<(&[u8], &[u8])> {
        let (key_end, end) = *self.ends.get(self.at)?;
        let from = std::mem::replace(&mut self.from, end);
        self.at += 1;
        Some((&self.bytes[from..key_end], &self.bytes[key_end..end]))
    }
}

/// An iterator over entries, keys or values.
#[pyclass(frozen, module = "pumice", name = "Scan")]
pub struct Scan {
    state: Mutex<State>,
    part: Part,
    reverse: bool,
}

/// The first key after all that begin with `prefix`; None if there is none.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut bound = prefix[..=last].to_vec();
    bound[last] += 1;
    Some(bound)
}

impl Scan {
    /// A scan of `store`.
    ///
    /// # Errors
    /// ValueError for a prefix beside bounds, or in another order than that of bytes; those of the
    /// engine.
    pub fn new(store: &Store, part: Part, bounds: Bounds<'_>, reverse: bool) -> PyResult<Scan> {
        let (start, end) = match bounds {
            (start, end, None) => (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec)),
            (None, None, Some(prefix)) => {
                let options = store.db.column_family_options(&store.cf).map_err(failed)?;
                if !options.comparator.is_bytewise() {
                    return Err(PyValueError::new_err("prefix needs the order of bytes"));
                }
                (Some(prefix.to_vec()), after(prefix))
            }
            _ => return Err(PyValueError::new_err("prefix goes without bounds")),
        };
        let options = ReadOptions {
            iterate_lower_bound: start,
            iterate_upper_bound: end,
            total_order_seek: true,
            ..store.reading()
        };
        let cursor = store.db.cursor_cf_opt(&options, &store.cf).map_err(failed)?;
        let state = State {
            cursor,
            is_fresh: true,
            is_over: false,
            bytes: Vec::new(),
            ends: Vec::new(),
            at: 0,
            from: 0,
            ahead: 1,
        };
        Ok(Scan { state: Mutex::new(state), part, reverse })
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        loop {
            // Another thread may hold the lock while it reads.
            let Some(mut state) = self.state.try_lock() else {
                py.detach(|| drop(self.state.lock()));
                continue;
            };
            if let Some((key, value)) = state.take() {
                let (key, value) = match self.part {
                    Part::Items => (bytes(key), bytes(value)),
                    Part::Keys => return Ok(Some(bytes(key).into_any())),
                    Part::Values => return Ok(Some(bytes(value).into_any())),
                };
                drop(state);
                return Ok(Some(PyTuple::new(py, [key, value])?.into_any()));
            }
            if state.is_over {
                return state.cursor.status().map(|()| None).map_err(failed);
            }
            drop(state);
            py.detach(|| {
                let mut state = self.state.lock();
                // Another thread may have read meanwhile.
                if state.at == state.ends.len() {
                    state.fill(self.reverse);
                }
            });
        }
    }
}
