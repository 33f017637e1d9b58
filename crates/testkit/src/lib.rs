//! pumice-testkit (skeleton).
