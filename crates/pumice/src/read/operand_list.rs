//! The merge operands that a read finds for one key, back to back: a counter or a list that has
//! many of them costs no allocation for each.
//!
//! Thread safety: plain data.
//!
//! Invariant: `ends` ascends and its last is the length of `bytes`.

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct OperandList {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// The last one found is the first.
    reversed: bool,
}

impl OperandList {
    /// An empty one.
    pub const fn new() -> Self {
        OperandList { bytes: Vec::new(), ends: Vec::new(), reversed: false }
    }
    /// Keeps one that was found after all others.
    pub fn push(&mut self, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
    }
    /// From now on they are in the opposite order.
    pub fn reverse(&mut self) {
        self.reversed = !self.reversed;
    }
    /// Forgets all, and their order; keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.reversed = false;
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// All of them, in their order.
    pub fn slices(&self) -> Vec<&[u8]> {
        let mut begin = 0;
        let found = self.ends.iter().map(|end| {
            let operand = &self.bytes[begin..*end];
            begin = *end;
            operand
        });
        let mut slices: Vec<&[u8]> = found.collect();
        if self.reversed {
            slices.reverse();
        }
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // Opens nothing.
    fn operands_keep_their_bounds_and_order() {
        let mut list = OperandList::new();
        assert!(list.is_empty() && list.slices().is_empty());
        for operand in [&b"ab"[..], b"", b"c"] {
            list.push(operand);
        }
        assert_eq!(list.slices(), [&b"ab"[..], b"", b"c"]);
        list.reverse();
        assert_eq!((list.len(), list.slices()), (3, vec![&b"c"[..], b"", b"ab"]));
        list.clear();
        list.push(b"x");
        list.push(b"y");
        assert_eq!(list.slices(), [b"x", b"y"]);
    }
}
