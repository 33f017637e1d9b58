//! pumice-cache (skeleton).
