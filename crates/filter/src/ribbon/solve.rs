//! Back-substitution: from equations in echelon form to the bit matrix of the filter.
//!
//! Pure functions.

use super::banding::Banding;
use super::{Layout, MAX_COLUMNS, ROWS, WORD};

/// Writes the solution, which has zeros in the free rows, into `data` as `layout` says.
pub(super) fn back_substitute(banding: &Banding, layout: &Layout, data: &mut [u8]) {
    match layout.columns {
        0 => {}
        1..=4 => substitute::<4>(banding, layout, data),
        5 => substitute::<5>(banding, layout, data),
        6 => substitute::<6>(banding, layout, data),
        7 => substitute::<7>(banding, layout, data),
        8 => substitute::<8>(banding, layout, data),
        9..=12 => substitute::<12>(banding, layout, data),
        13..=16 => substitute::<16>(banding, layout, data),
        _ => substitute::<MAX_COLUMNS>(banding, layout, data),
    }
}

/// `COLUMNS` columns are computed, which is a constant so that their loop is unrolled; those that
/// the layout has are stored. Columns do not depend on each other.
fn substitute<const COLUMNS: usize>(banding: &Banding, layout: &Layout, data: &mut [u8]) {
    // Of each column, the 128 rows from the current one on; bit 0 is the current row.
    let mut states = [0u128; COLUMNS];
    let (words, _) = data.as_chunks_mut::<WORD>();
    for block in (0..layout.blocks).rev() {
        let rows = block * ROWS..(block + 1) * ROWS;
        let rows = banding.coefficients[rows.clone()].iter().zip(&banding.results[rows]);
        for (&coefficients, &result) in rows.rev() {
            // A free row has no coefficients and the result 0.
            for (column, state) in states.iter_mut().enumerate() {
                let above = *state << 1;
                let bit = ((above & coefficients).count_ones() ^ (result >> column)) & 1;
                *state = above | u128::from(bit);
            }
        }
        let (first, columns) = layout.block(block);
        for (word, state) in words[first..first + columns].iter_mut().zip(&states) {
            *word = state.to_le_bytes();
        }
    }
}
