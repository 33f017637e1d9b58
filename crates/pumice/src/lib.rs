//! pumice (skeleton).
pub mod options;
pub mod stats;
