//! pumice-filter (skeleton).
