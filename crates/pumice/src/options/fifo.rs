//! `compaction_options_fifo`: the settings of FIFO compaction.
//!
//! Thread safety: plain data.

use super::value::{OptionValue, Refusal, SINCE_11_0, members};

/// Settings of FIFO compaction, named as RocksDB's `CompactionOptionsFIFO`.
///
/// Example: that of [`CompactionStyle`](super::CompactionStyle).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FifoOptions {
    /// Bytes of table files beyond which the oldest files are deleted.
    pub max_table_files_size: u64,
    /// Merge small files of L0, so that reads have fewer to look into.
    pub allow_compaction: bool,
    /// Bytes of table and blob files together beyond which the oldest files are deleted, instead
    /// of `max_table_files_size`; 0 for that one.
    pub max_data_files_size: u64,
    /// With `allow_compaction`: neighbours of similar size are merged, in steps, up to the size
    /// that lets about `level0_file_num_compaction_trigger` files fill `max_data_files_size`.
    /// Needs a `max_data_files_size` of at least `max_table_files_size`.
    pub use_kv_ratio_compaction: bool,
}

impl Default for FifoOptions {
    fn default() -> Self {
        FifoOptions {
            max_table_files_size: 1 << 30,
            allow_compaction: false,
            max_data_files_size: 0,
            use_kv_ratio_compaction: false,
        }
    }
}

impl FifoOptions {
    /// Members that concern file temperatures, and `ttl` of RocksDB before 5.18 (now an option of
    /// the column family): only these values are accepted.
    const FIXED: [(&'static str, &'static [&'static str]); 5] = [
        ("age_for_warm", &["0"]),
        ("file_temperature_age_thresholds", &["", "{}"]),
        ("allow_trivial_copy_when_change_temperature", &["false", "0", "true", "1"]),
        ("trivial_copy_buffer_size", &["4096"]),
        ("ttl", &["0"]),
    ];

    fn update_member(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match name {
            "max_table_files_size" => self.max_table_files_size.update(value),
            "allow_compaction" => self.allow_compaction.update(value),
            "max_data_files_size" => self.max_data_files_size.update(value),
            "use_kv_ratio_compaction" => self.use_kv_ratio_compaction.update(value),
            _ => {
                let Some((_, accepted)) = Self::FIXED.iter().find(|(n, _)| *n == name) else {
                    return Err(Refusal::UnknownName(name.to_string()));
                };
                if accepted.contains(&value.trim()) {
                    return Ok(());
                }
                Err(Refusal::Unsupported(format!(
                    "{name}={value} is not supported by this build; only {} is",
                    if accepted[0].is_empty() { "the empty value" } else { accepted[0] }
                )))
            }
        }
    }

    /// In RocksDB's order. `newer`: with the members of RocksDB 11.
    fn text(&self, newer: bool) -> String {
        let mut text = String::from("{");
        if newer {
            text = format!(
                "{{use_kv_ratio_compaction={};max_data_files_size={};",
                self.use_kv_ratio_compaction, self.max_data_files_size
            );
        }
        let (merges, limit) = (self.allow_compaction, self.max_table_files_size);
        text + &format!("allow_compaction={merges};max_table_files_size={limit};}}")
    }
}

impl OptionValue for FifoOptions {
    const TYPE: &'static str = "CompactionOptionsFIFO";

    fn parse(text: &str) -> Result<Self, Refusal> {
        let mut options = FifoOptions::default();
        options.update(text)?;
        Ok(options)
    }

    fn format(&self) -> String {
        self.text(true)
    }

    fn format_saved(&self) -> String {
        self.text(self.members_since() > 0)
    }

    fn members_since(&self) -> usize {
        let newer = |o: &FifoOptions| (o.max_data_files_size, o.use_kv_ratio_compaction);
        if newer(self) == newer(&FifoOptions::default()) { 0 } else { SINCE_11_0 }
    }

    /// A number alone is the limit, as in RocksDB.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        let text = text.trim();
        if !text.is_empty() && !text.contains('=') && !text.starts_with('{') {
            return self.max_table_files_size.update(text);
        }
        let pairs = members(text)?;
        pairs.iter().try_for_each(|(name, value)| self.update_member(name, value))
    }
}
