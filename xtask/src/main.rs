//! pumice-xtask (skeleton).
fn main() {}
