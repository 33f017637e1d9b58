//! What the build scripts of the shared libraries ask of the linker.
//!
//! Not part of the crate: the scripts include it. It does not look at what came of it.

use std::env::{var, var_os};

/// Functions that are equal to the byte become one, if `PUMICE_FOLD_CODE` is 1: many differ only in
/// the types that they were made for. lld alone does that; rustc brings it for this target, and
/// takes it unless cargo was told of another linker or of flags.
pub fn fold_code() {
    for name in ["PUMICE_FOLD_CODE", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_LINKER"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let wanted = var("PUMICE_FOLD_CODE").is_ok_and(|value| value == "1");
    let brought = var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    let chosen = var_os("RUSTC_LINKER").is_some()
        || var_os("CARGO_ENCODED_RUSTFLAGS").is_some_and(|flags| !flags.is_empty());
    if wanted && brought && !chosen {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}
