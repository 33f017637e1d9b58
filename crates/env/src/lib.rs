//! pumice-env (skeleton).
