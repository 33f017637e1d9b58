//! Arguments that are bytes, and exceptions.
//!
//! `bytes` are read where they are; a `bytearray`, a `memoryview` and whatever else has a buffer is
//! copied, since another thread could change it while the GIL is released.
//!
//! Thread safety: plain functions.

use std::ops::Deref;

use pumice::ErrorKind;
use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

create_exception!(pumice, Error, PyException, "An operation of the database failed.");
create_exception!(pumice, Corruption, Error, "Files of the database are damaged.");

/// The exception for an error of the engine.
pub fn failed(error: pumice::Error) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Corruption => Corruption::new_err(text),
        ErrorKind::InvalidArgument => PyValueError::new_err(text),
        _ => Error::new_err(text),
    }
}

/// Bytes of an argument, for as long as the call takes.
pub enum Input<'a> {
    /// Of an object that does not change.
    Shared(&'a [u8]),
    /// A copy of what could change.
    Copied(Vec<u8>),
}

impl Deref for Input<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Input::Shared(bytes) => bytes,
            Input::Copied(bytes) => bytes,
        }
    }
}

/// The bytes of `object`.
///
/// # Errors
/// TypeError if it has none.
pub fn input<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Input<'a>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Input::Shared(bytes.as_bytes()));
    }
    match PyBuffer::<u8>::get(object) {
        Ok(buffer) => Ok(Input::Copied(buffer.to_vec(object.py())?)),
        Err(_) => {
            let kind = object.get_type();
            Err(PyTypeError::new_err(format!("keys and values are bytes, not {kind}")))
        }
    }
}

/// The bytes of an argument that may be None.
///
/// # Errors
/// As [`input`].
pub fn optional<'a>(object: Option<&'a Bound<'_, PyAny>>) -> PyResult<Option<Input<'a>>> {
    object.map(input).transpose()
}

/// Options by name, as RocksDB's texts: numbers and truth values need not be quoted.
///
/// # Errors
/// A name is not a string.
pub fn options(given: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let mut options = Vec::new();
    for (name, value) in given.into_iter().flatten() {
        let text = match value.extract::<bool>() {
            Ok(value) => value.to_string(),
            Err(_) => value.str()?.to_string(),
        };
        options.push((name.extract()?, text));
    }
    Ok(options)
}
