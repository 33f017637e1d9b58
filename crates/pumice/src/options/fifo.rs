//! `compaction_options_fifo`: the settings of FIFO compaction.
//!
//! Thread safety: plain data.

use super::value::{OptionValue, Refusal, members};

/// Settings of FIFO compaction, named as RocksDB's `CompactionOptionsFIFO`.
///
/// Example: that of [`CompactionStyle`](super::CompactionStyle).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FifoOptions {
    /// Bytes of table files beyond which the oldest files are deleted.
    pub max_table_files_size: u64,
    /// Merge small files of L0, so that reads have fewer to look into.
    pub allow_compaction: bool,
}

impl Default for FifoOptions {
    fn default() -> Self {
        FifoOptions { max_table_files_size: 1 << 30, allow_compaction: false }
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
}

impl OptionValue for FifoOptions {
    const TYPE: &'static str = "CompactionOptionsFIFO";

    fn parse(text: &str) -> Result<Self, Refusal> {
        let mut options = FifoOptions::default();
        options.update(text)?;
        Ok(options)
    }

    /// Members that RocksDB 7.8 knows, too.
    fn format(&self) -> String {
        format!(
            "{{max_table_files_size={};allow_compaction={};}}",
            self.max_table_files_size, self.allow_compaction
        )
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
