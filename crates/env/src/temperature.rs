//! The temperature of a file: how soon its bytes will be read again.
//!
//! A hint for file systems that have places of several kinds; those of this crate have one, and
//! ignore it. Thread safety: plain data.

/// How soon the bytes of a file will be read again; named as RocksDB's `Temperature`. Persisted:
/// never renumber.
///
/// A file system of one's own finds it in the options of the files that it creates and opens.
///
/// ```
/// use pumice_env::{FileOptions, Temperature};
/// let options = FileOptions { temperature: Temperature::Warm, ..FileOptions::default() };
/// assert_eq!(Temperature::of_name("kWarm"), Some(options.temperature));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Temperature {
    // Persisted. Never renumber.
    /// Nothing is known.
    #[default]
    Unknown = 0,
    /// Very soon.
    Hot = 4,
    /// Sometimes.
    Warm = 8,
    /// Seldom.
    Cool = 10,
    /// Hardly ever.
    Cold = 12,
    /// Perhaps never.
    Ice = 16,
}

impl Temperature {
    const NAMES: [(Temperature, &'static str); 6] = [
        (Temperature::Unknown, "kUnknown"),
        (Temperature::Hot, "kHot"),
        (Temperature::Warm, "kWarm"),
        (Temperature::Cool, "kCool"),
        (Temperature::Cold, "kCold"),
        (Temperature::Ice, "kIce"),
    ];

    /// RocksDB's name in option text.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(known, _)| *known == self);
        named.map_or("kUnknown", |(_, name)| name)
    }

    /// The temperature with that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(known, _)| *known)
    }

    /// That of a byte in a MANIFEST; unknown for other numbers, which the MANIFEST keeps.
    pub fn of_byte(byte: u8) -> Self {
        let known = Self::NAMES.iter().find(|(known, _)| *known as u8 == byte);
        known.map_or(Temperature::Unknown, |(known, _)| *known)
    }
}
