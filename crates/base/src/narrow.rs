//! Narrowing conversions that state what happens to bits that do not fit.
//!
//! A plain `as` drops them silently, so `clippy::cast_possible_truncation` is an error in the
//! crates that read lengths and numbers from files (each says so in its `lib.rs`). Code there uses
//! one of these instead, or `try_from` where the number is untrusted.
//!
//! Pure functions.
#![expect(clippy::cast_possible_truncation)] // Here and nowhere else.

const _: () = assert!(usize::BITS == 64, "file offsets are used as sizes");

/// A length that was checked at an entry point, or an index below such a length.
///
/// # Panics
/// If it does not fit: then it was not checked.
#[inline(always)]
#[track_caller]
pub fn len_u32(n: usize) -> u32 {
    if n > u32::MAX as usize {
        too_large(n);
    }
    n as u32
}

/// As [`len_u32`], for lengths that are small by construction.
///
/// # Panics
/// If it does not fit.
#[inline(always)]
#[track_caller]
pub fn len_u16(n: usize) -> u16 {
    if n > usize::from(u16::MAX) {
        too_large(n);
    }
    n as u16
}

/// A small number: a level, a count of jobs.
///
/// # Panics
/// If it does not fit.
#[inline(always)]
#[track_caller]
pub fn small_i32(n: usize) -> i32 {
    if n > i32::MAX as usize {
        too_large(n);
    }
    n as i32
}

#[cold]
#[inline(never)]
#[track_caller]
fn too_large(n: usize) -> ! {
    panic!("a length of {n} was not checked where it entered")
}

/// A stored number as a size or position in memory: all of it, since memory has 64-bit sizes.
#[inline(always)]
pub const fn to_usize(n: u64) -> usize {
    n as usize
}

/// The low 8 bits, the others dropped on purpose.
#[inline(always)]
pub const fn low_u8(n: u64) -> u8 {
    n as u8
}
/// The low 16 bits, the others dropped on purpose.
#[inline(always)]
pub const fn low_u16(n: u64) -> u16 {
    n as u16
}
/// The low 32 bits, the others dropped on purpose.
#[inline(always)]
pub const fn low_u32(n: u64) -> u32 {
    n as u32
}
/// The low 64 bits, the others dropped on purpose.
#[inline(always)]
pub const fn low_u64(n: u128) -> u64 {
    n as u64
}

/// `n`, or the largest number if that is less.
#[inline(always)]
pub const fn saturating_u64(n: u128) -> u64 {
    if n > u64::MAX as u128 { u64::MAX } else { n as u64 }
}

/// A floating-point number without its fraction, saturating; 0 for NaN.
#[inline(always)]
pub const fn round_down_u64(n: f64) -> u64 {
    n as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit() {
        assert_eq!((len_u32(u32::MAX as usize), len_u16(0xffff)), (u32::MAX, 0xffff));
        assert_eq!((low_u8(0x1234), low_u16(0x12345), low_u32(1 << 32)), (0x34, 0x2345, 0));
        assert_eq!((low_u64(1 << 64), saturating_u64(1 << 64)), (0, u64::MAX));
        assert_eq!((round_down_u64(-1.5), round_down_u64(1e30)), (0, u64::MAX));
        assert_eq!(to_usize(u64::MAX), usize::MAX);
        for lost in [|| len_u32(1 << 32) as usize, || len_u16(1 << 16) as usize] {
            assert!(std::panic::catch_unwind(lost).is_err());
        }
        assert!(std::panic::catch_unwind(|| small_i32(1 << 31)).is_err());
    }
}
