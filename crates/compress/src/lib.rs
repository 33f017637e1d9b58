//! pumice-compress (skeleton).
