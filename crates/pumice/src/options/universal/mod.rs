//! `compaction_options_universal`: the settings of universal compaction.
//!
//! Thread safety: plain data.

use super::enums::StopStyle;
use super::value::{OptionValue, Refusal, SINCE_10_10, members};

/// Settings of universal compaction, named as RocksDB's `CompactionOptionsUniversal`.
///
/// Example: that of [`CompactionStyle`](super::CompactionStyle).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniversalOptions {
    /// Percent by which the next older sorted run may be larger than the runs merged with it.
    pub size_ratio: u32,
    /// Fewest runs of a merge; less than 2 means 2.
    pub min_merge_width: u32,
    /// Most runs of a merge.
    pub max_merge_width: u32,
    /// Size that all newer runs may have together, in percent of the oldest run, before everything
    /// is merged.
    pub max_size_amplification_percent: u32,
    /// Percent of all bytes, the oldest ones, that are compressed; negative for all. With 0 and
    /// more, flushed files are not compressed.
    pub compression_size_percent: i32,
    /// Runs that may stay: -1 for `level0_file_num_compaction_trigger`, 0 for a limit derived from
    /// the sizes.
    pub max_read_amp: i32,
    /// What a run is compared with.
    pub stop_style: StopStyle,
    /// Files that do not overlap change level without being rewritten, and so keep their
    /// compression.
    pub allow_trivial_move: bool,
    /// The two oldest runs are merged piece by piece, which takes less temporary space.
    pub incremental: bool,
    /// Compactions that wait for a thread lock fewer files. Accepted without effect.
    pub reduce_file_locking: bool,
}

impl Default for UniversalOptions {
    fn default() -> Self {
        UniversalOptions {
            size_ratio: 1,
            min_merge_width: 2,
            max_merge_width: u32::MAX,
            max_size_amplification_percent: 200,
            compression_size_percent: -1,
            max_read_amp: -1,
            stop_style: StopStyle::TotalSize,
            allow_trivial_move: false,
            incremental: false,
            reduce_file_locking: false,
        }
    }
}

impl UniversalOptions {
    fn update_member(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match name {
            "size_ratio" => self.size_ratio.update(value),
            "min_merge_width" => self.min_merge_width.update(value),
            "max_merge_width" => self.max_merge_width.update(value),
            "max_size_amplification_percent" => self.max_size_amplification_percent.update(value),
            "compression_size_percent" => self.compression_size_percent.update(value),
            "max_read_amp" => self.max_read_amp.update(value),
            "stop_style" => self.stop_style.update(value),
            "allow_trivial_move" => self.allow_trivial_move.update(value),
            "incremental" => self.incremental.update(value),
            "reduce_file_locking" => self.reduce_file_locking.update(value),
            _ => Err(Refusal::UnknownName(name.to_string())),
        }
    }

    /// In RocksDB's order. `all`: includes the members that RocksDB 7.8 does not know, even if they
    /// have their defaults.
    fn text(&self, all: bool) -> String {
        let standard = UniversalOptions::default();
        let newer = |name: &str, value: String, differs: bool| match all || differs {
            true => format!("{name}={value};"),
            false => String::new(),
        };
        let locking = self.reduce_file_locking;
        let locking_differs = locking != standard.reduce_file_locking;
        format!(
            "{{{}incremental={};compression_size_percent={};allow_trivial_move={};\
             max_size_amplification_percent={};max_merge_width={};stop_style={};\
             min_merge_width={};{}size_ratio={};}}",
            newer("reduce_file_locking", locking.to_string(), locking_differs),
            self.incremental,
            self.compression_size_percent,
            self.allow_trivial_move,
            self.max_size_amplification_percent,
            self.max_merge_width,
            self.stop_style.format(),
            self.min_merge_width,
            newer(
                "max_read_amp",
                self.max_read_amp.to_string(),
                self.max_read_amp != standard.max_read_amp
            ),
            self.size_ratio
        )
    }
}

impl OptionValue for UniversalOptions {
    const TYPE: &'static str = "CompactionOptionsUniversal";

    fn parse(text: &str) -> Result<Self, Refusal> {
        let mut options = UniversalOptions::default();
        options.update(text)?;
        Ok(options)
    }

    fn format(&self) -> String {
        self.text(true)
    }

    fn format_saved(&self) -> String {
        self.text(false)
    }

    fn members_since(&self) -> usize {
        let standard = UniversalOptions::default();
        let newer = |o: &UniversalOptions| (o.reduce_file_locking, o.max_read_amp);
        if newer(self) == newer(&standard) { 0 } else { SINCE_10_10 }
    }

    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        let pairs = members(text.trim())?;
        pairs.iter().try_for_each(|(name, value)| self.update_member(name, value))
    }
}

#[cfg(test)]
mod tests;
