//! pumice-memtable (skeleton).
