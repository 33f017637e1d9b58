//! pumice-wal (skeleton).
