//! The network server of Pumice.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod protocol;
