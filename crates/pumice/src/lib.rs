//! pumice (skeleton).
