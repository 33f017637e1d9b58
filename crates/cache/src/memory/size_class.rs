//! The sizes in which a span is divided.
//!
//! A class is a number of equal objects that fill a span, so nothing is wasted at its end.
//! Neighbouring classes are about a sixteenth apart, and further where few objects fill a span:
//! rounding up to one adds less than a seventh.

use super::span::{HEADER_BYTES, SPAN_BYTES};

/// All sizes are multiples of it, and so are all addresses.
pub(super) const ALIGN: usize = 16;
/// Smaller objects get this much.
const SMALLEST: usize = 256;
/// Larger objects are the allocator's: eight of them fill a span.
pub(crate) const LARGEST: usize = SPAN_BYTES / 8;
/// More than there are.
pub(super) const CLASSES_MAX: usize = 80;

/// The sizes, ascending.
static SIZES: ([u16; CLASSES_MAX], usize) = sizes();

const fn sizes() -> ([u16; CLASSES_MAX], usize) {
    let (mut sizes, mut n) = ([0; CLASSES_MAX], 0);
    let mut size = SMALLEST;
    loop {
        // As many objects as fit, and then as large as they can be.
        let fitted = (SPAN_BYTES / (SPAN_BYTES / size)) / ALIGN * ALIGN;
        if fitted >= LARGEST {
            break;
        }
        sizes[n] = fitted as u16;
        n += 1;
        size = (fitted + fitted / 16).next_multiple_of(ALIGN);
    }
    sizes[n] = LARGEST as u16;
    (sizes, n + 1)
}

/// The smallest class for `bytes` bytes; `None` above [`LARGEST`].
pub(super) fn class_of(bytes: usize) -> Option<usize> {
    if bytes > LARGEST {
        return None;
    }
    let (sizes, n) = &SIZES;
    Some(sizes[..*n].partition_point(|size| usize::from(*size) < bytes))
}

/// Bytes of an object of that class.
pub(super) fn size_of_class(class: usize) -> usize {
    usize::from(SIZES.0[class])
}

/// Bytes that an object of `bytes` bytes takes.
pub(crate) fn rounded(bytes: usize) -> usize {
    class_of(bytes).map_or(bytes, size_of_class)
}

/// Objects of that class in a span, of which the first of a chunk has a header in front.
pub(super) fn objects_in(class: usize, first: bool) -> u32 {
    let room = if first { SPAN_BYTES - HEADER_BYTES } else { SPAN_BYTES };
    (room / size_of_class(class)) as u32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn classes_waste_little() {
        let (sizes, n) = &SIZES;
        let sizes = &sizes[..*n];
        assert!(sizes.is_sorted() && sizes.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(sizes.iter().all(|size| usize::from(*size) % ALIGN == 0));
        assert_eq!(usize::from(*sizes.last().unwrap()), LARGEST);
        for bytes in 0..=LARGEST {
            let class = class_of(bytes).unwrap();
            let size = size_of_class(class);
            assert!(size >= bytes && (class == 0 || size_of_class(class - 1) < bytes));
            assert!(bytes < SMALLEST || size - bytes <= bytes / 7, "{bytes}: {size}");
            assert!(objects_in(class, false) as usize * size <= SPAN_BYTES);
            assert!(objects_in(class, true) >= 7);
        }
        assert_eq!((class_of(LARGEST + 1), rounded(LARGEST + 1)), (None, LARGEST + 1));
    }
}
