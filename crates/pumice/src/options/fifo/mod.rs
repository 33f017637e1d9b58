//! `compaction_options_fifo`: the settings of FIFO compaction.
//!
//! Thread safety: plain data.

use pumice_base::{Error, Result as EngineResult};
use pumice_env::Temperature;

use super::cf_options::ColumnFamilyOptions;
use super::enums::CompactionStyle;
use super::value::{OptionValue, Refusal, SINCE_10_10, SINCE_11_8, members};

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
    /// By age, ascending: the temperatures of files all of whose data is so old. Such files are
    /// rewritten, one at a time, the oldest first. Only with `num_levels=1`.
    pub file_temperature_age_thresholds: Vec<FileTemperatureAge>,
    /// Without effect, as in RocksDB since 8.3.
    pub age_for_warm: u64,
    /// Without effect: what changes its temperature is rewritten.
    pub allow_trivial_copy_when_change_temperature: bool,
    /// Of such copies.
    pub trivial_copy_buffer_size: u64,
}

/// The temperature of files from an age on, named as RocksDB's.
///
/// ```
/// use pumice::options::{CompactionStyle, FifoOptions, FileTemperatureAge};
/// use pumice::{Options, Temperature};
/// let mut options = Options::default();
/// options.cf.compaction_style = CompactionStyle::Fifo;
/// options.cf.num_levels = 1;
/// options.cf.compaction_options_fifo = FifoOptions {
///     file_temperature_age_thresholds: vec![
///         FileTemperatureAge { age: 3600, temperature: Temperature::Warm },
///         FileTemperatureAge { age: 86_400, temperature: Temperature::Cold },
///     ],
///     ..FifoOptions::default()
/// };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTemperatureAge {
    /// Seconds since the newest entry was written.
    pub age: u64,
    /// What files of that age get.
    pub temperature: Temperature,
}

impl Default for FifoOptions {
    fn default() -> Self {
        FifoOptions {
            max_table_files_size: 1 << 30,
            allow_compaction: false,
            max_data_files_size: 0,
            use_kv_ratio_compaction: false,
            file_temperature_age_thresholds: Vec::new(),
            age_for_warm: 0,
            allow_trivial_copy_when_change_temperature: false,
            trivial_copy_buffer_size: 4096,
        }
    }
}

impl FifoOptions {
    fn update_member(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match name {
            "max_table_files_size" => self.max_table_files_size.update(value),
            "allow_compaction" => self.allow_compaction.update(value),
            "max_data_files_size" => self.max_data_files_size.update(value),
            "use_kv_ratio_compaction" => self.use_kv_ratio_compaction.update(value),
            "file_temperature_age_thresholds" => self.file_temperature_age_thresholds.update(value),
            "age_for_warm" => self.age_for_warm.update(value),
            "allow_trivial_copy_when_change_temperature" => {
                self.allow_trivial_copy_when_change_temperature.update(value)
            }
            "trivial_copy_buffer_size" => self.trivial_copy_buffer_size.update(value),
            // Of RocksDB before 5.18, now an option of the column family.
            "ttl" if value.trim() == "0" => Ok(()),
            "ttl" => Err(Refusal::Unsupported(format!(
                "ttl={value} is not supported by this build; only 0 is"
            ))),
            _ => Err(Refusal::UnknownName(name.to_string())),
        }
    }

    /// In RocksDB's order: the name, the text, and the version that has it, as in
    /// [`OptionValue::members_since`].
    fn fields(&self) -> [(&'static str, String, usize); 8] {
        let ages = match self.file_temperature_age_thresholds.as_slice() {
            [] => String::new(),
            _ => format!("{{{}}}", self.file_temperature_age_thresholds.format()),
        };
        let copies = self.allow_trivial_copy_when_change_temperature;
        [
            ("use_kv_ratio_compaction", self.use_kv_ratio_compaction.to_string(), SINCE_11_8),
            ("max_data_files_size", self.max_data_files_size.to_string(), SINCE_11_8),
            ("trivial_copy_buffer_size", self.trivial_copy_buffer_size.to_string(), SINCE_10_10),
            ("allow_trivial_copy_when_change_temperature", copies.to_string(), SINCE_10_10),
            ("file_temperature_age_thresholds", ages, SINCE_10_10),
            ("allow_compaction", self.allow_compaction.to_string(), 0),
            ("age_for_warm", self.age_for_warm.to_string(), 0),
            ("max_table_files_size", self.max_table_files_size.to_string(), 0),
        ]
    }

    /// `all`: newer members, too, that have their defaults.
    fn text(&self, all: bool) -> String {
        let (fields, usual) = (self.fields(), FifoOptions::default().fields());
        let mut text = String::from("{");
        for ((name, value, since), usual) in fields.iter().zip(&usual) {
            if all || *since == 0 || *value != usual.1 {
                text.extend([name, "=", value, ";"]);
            }
        }
        text + "}"
    }
}

/// A `max_compaction_bytes` of 0 is none that was forgotten: merges derive their size.
pub(super) fn derives_merge_bytes(options: &ColumnFamilyOptions) -> bool {
    options.compaction_style == CompactionStyle::Fifo
        && options.compaction_options_fifo.use_kv_ratio_compaction
}

/// Refuses ages that no file of the family could have a temperature by, or that are in no order.
///
/// # Errors
/// NotSupported, in RocksDB's words.
pub(super) fn check_temperatures(options: &ColumnFamilyOptions) -> EngineResult<()> {
    let ages = &options.compaction_options_fifo.file_temperature_age_thresholds;
    let text = if ages.is_empty() {
        return Ok(());
    } else if options.compaction_style != CompactionStyle::Fifo {
        "Option file_temperature_age_thresholds only supports FIFO compaction."
    } else if options.num_levels > 1 {
        "Option file_temperature_age_thresholds is only supported when num_levels = 1."
    } else if !ages.is_sorted_by(|a, b| a.age < b.age) {
        "Option file_temperature_age_thresholds requires elements to be sorted in increasing order \
         with respect to `age` field."
    } else {
        return Ok(());
    };
    Err(Error::not_supported(text))
}

impl OptionValue for FileTemperatureAge {
    const TYPE: &'static str = "FileTemperatureAge";

    fn parse(text: &str) -> Result<Self, Refusal> {
        let mut parsed = FileTemperatureAge { age: 0, temperature: Temperature::Unknown };
        for (name, value) in members(text)? {
            match name.as_str() {
                "age" => parsed.age.update(&value)?,
                "temperature" => parsed.temperature.update(&value)?,
                _ => return Err(Refusal::UnknownName(name)),
            }
        }
        Ok(parsed)
    }

    fn format(&self) -> String {
        format!("{{age={};temperature={};}}", self.age, self.temperature.name())
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
        self.text(false)
    }

    fn members_since(&self) -> usize {
        let (fields, usual) = (self.fields(), FifoOptions::default().fields());
        let changed = fields.iter().zip(&usual).filter(|(field, usual)| field.1 != usual.1);
        changed.map(|(field, _)| field.2).max().unwrap_or(0)
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

#[cfg(test)]
mod tests;
