//! pumice-peer (skeleton).
