//! `stats_history`: how the tickers grew in each period of `--stats_persist_period_sec`, in
//! RocksDB's lines.
//!
//! Thread safety: a pure function but for the machine's time zone.

use crate::calendar::date;

/// The end of a period, seconds since 1970, and the growth of each ticker in it.
pub type Sample = (u64, Vec<(&'static str, u64)>);

/// The lines of `samples`.
pub fn text(samples: &[Sample]) -> String {
    let lines = samples.iter().map(|(time, growth)| {
        let growth = growth.iter().map(|(name, count)| format!(" {time}   {name}  {count}\n"));
        format!("------ {} ------\n{}", date(*time as i64), growth.collect::<String>())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn samples_are_headed_by_their_time() {
        let samples = [(1_562_116_015, vec![("rocksdb.a", 7), ("rocksdb.b", 0)]), (1, Vec::new())];
        let date = |seconds| format!("------ {} ------\n", date(seconds));
        let expected = format!(
            "{} 1562116015   rocksdb.a  7\n 1562116015   rocksdb.b  0\n{}",
            date(1_562_116_015),
            date(1)
        );
        assert_eq!(text(&samples), expected);
        assert_eq!(text(&[]), "");
    }
}
