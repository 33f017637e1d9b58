//! pumice-manifest (skeleton).
