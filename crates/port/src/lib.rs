//! pumice-port (skeleton).
