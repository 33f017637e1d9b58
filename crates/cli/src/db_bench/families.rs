//! `--num_column_families` and related flags: names, how many exist, which one a key is in.
//!
//! As in RocksDB's db_bench a key is always in the same column family of those that are hot, so
//! that reads find what fills wrote. With fewer hot ones than there are, a fill writes to the hot
//! ones, then makes as many new ones and writes to these.
//!
//! Thread safety: plain data.

use super::flags::Flags;

/// The column families that the flags ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Families {
    /// How many there are in the end; at least 1.
    pub total: usize,
    /// How many are written to at a time; at most `total`.
    pub hot: usize,
    /// Percentages of the hot ones; empty for equal shares.
    shares: Vec<u64>,
}

impl Families {
    /// From `flags`.
    ///
    /// # Errors
    /// Shares that are not percentages of the hot column families.
    pub fn new(flags: &Flags) -> Result<Families, String> {
        let total = usize::try_from(flags.num_column_families).unwrap_or(0).max(1);
        let hot = match usize::try_from(flags.num_hot_column_families) {
            Ok(hot) if hot > 0 && hot < total => hot,
            _ => total,
        };
        let text = &flags.column_family_distribution;
        if text.is_empty() || total == 1 {
            return Ok(Families { total, hot, shares: Vec::new() });
        }
        let shares: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
        let shares =
            shares.map_err(|_| format!("column_family_distribution {text}: not numbers"))?;
        if shares.iter().sum::<u64>() != 100 {
            return Err("column_family_distribution items must sum to 100".into());
        }
        if shares.len() != hot {
            let count = shares.len();
            return Err(format!("got {count} column_family_distribution items; expected {hot}"));
        }
        Ok(Families { total, hot, shares })
    }

    /// Name of number `index`, RocksDB's.
    pub fn name(index: usize) -> String {
        match index {
            0 => "default".to_string(),
            index => format!("column_family_name_{index:06}"),
        }
    }

    /// Where key `number` is, when `created` exist. Requires: `created` is at least `hot`.
    #[inline]
    pub fn of_key(&self, number: u64, created: usize) -> usize {
        if self.total == 1 {
            return 0;
        }
        let offset = if self.shares.is_empty() {
            number as usize % self.hot
        } else {
            let mut left = number % 100;
            let passed = self.shares.iter().take_while(|share| {
                let beyond = left >= **share;
                left -= if beyond { **share } else { 0 };
                beyond
            });
            passed.count()
        };
        created - self.hot + offset
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn keys_stay_in_their_family() {
        let mut flags = Flags::default();
        assert_eq!(Families::new(&flags).unwrap().of_key(17, 1), 0);
        for (name, value) in [("num_column_families", "6"), ("num_hot_column_families", "2")] {
            assert!(flags.assign(name, value));
        }
        let families = Families::new(&flags).unwrap();
        assert_eq!((families.total, families.hot), (6, 2));
        assert_eq!([2, 4, 6].map(|created| families.of_key(7, created)), [1, 3, 5]);
        assert!(flags.assign("column_family_distribution", "10,90"));
        let families = Families::new(&flags).unwrap();
        assert_eq!([0, 9, 10, 99, 100].map(|key| families.of_key(key, 2)), [0, 0, 1, 1, 0]);
        for (wrong, why) in
            [("10,80", "sum to 100"), ("10,20,70", "expected 2"), ("a,b", "not num")]
        {
            assert!(flags.assign("column_family_distribution", wrong));
            let error = Families::new(&flags).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(Families::name(0), "default");
        assert_eq!(Families::name(12), "column_family_name_000012");
    }
}
