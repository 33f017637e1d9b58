//! pumice-cli (skeleton).
fn main() {}
