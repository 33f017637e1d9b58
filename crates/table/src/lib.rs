//! pumice-table (skeleton).
