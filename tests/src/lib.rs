//! pumice-tests (skeleton).
