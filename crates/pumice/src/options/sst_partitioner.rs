//! What cuts the outputs of compactions besides their size.
//!
//! Thread safety: plain data.

use super::value::{OptionValue, Refusal, members};

const FIXED_PREFIX: &str = "SstPartitionerFixedPrefixFactory";

/// Where compactions end table files. Flushes and moved files are as they are, but a file that
/// would be cut is rewritten rather than moved.
///
/// ```
/// use pumice::options::SstPartitionerFactory;
/// // No table file has keys of two tenants, whose numbers are the first four bytes of keys.
/// let mut options = pumice::Options::default();
/// options.cf.sst_partitioner_factory = SstPartitionerFactory::FixedPrefix(4);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SstPartitionerFactory {
    /// Where their size says.
    #[default]
    None,
    /// RocksDB's `SstPartitionerFixedPrefixFactory`: also where the first bytes of keys, so many
    /// of them, change.
    FixedPrefix(usize),
}

impl SstPartitionerFactory {
    /// The bytes of a key that do not change in a file.
    pub(crate) fn prefix_len(self) -> Option<usize> {
        match self {
            SstPartitionerFactory::None => None,
            SstPartitionerFactory::FixedPrefix(len) => Some(len),
        }
    }
}

impl OptionValue for SstPartitionerFactory {
    const TYPE: &'static str = "SstPartitionerFactory";

    fn parse(text: &str) -> Result<Self, Refusal> {
        if matches!(text, "" | "nullptr") {
            return Ok(SstPartitionerFactory::None);
        }
        let (mut id, mut len) = (text.to_string(), None);
        if text.starts_with('{') || text.contains('=') {
            id.clear();
            for (name, value) in members(text)? {
                match &name[..] {
                    "id" => id = value,
                    "length" => len = Some(usize::parse(&value)?),
                    _ => return Err(Refusal::UnknownName(name)),
                }
            }
        }
        match (&id[..], len) {
            (FIXED_PREFIX, Some(len)) => Ok(SstPartitionerFactory::FixedPrefix(len)),
            (FIXED_PREFIX, None) => Err(Refusal::expected("a length", text)),
            _ => Err(Refusal::Unsupported(format!("{id} is not built in"))),
        }
    }

    fn format(&self) -> String {
        match self {
            SstPartitionerFactory::None => "nullptr".to_string(),
            SstPartitionerFactory::FixedPrefix(len) => {
                format!("{{id={FIXED_PREFIX};length={len};}}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn a_partitioner_has_a_text() {
        for text in ["nullptr", "{id=SstPartitionerFixedPrefixFactory;length=3;}"] {
            assert_eq!(SstPartitionerFactory::parse(text).unwrap().format(), text);
        }
        let other = SstPartitionerFactory::parse("{id=Mine;}");
        assert!(matches!(other, Err(Refusal::Unsupported(_))), "{other:?}");
        assert!(SstPartitionerFactory::parse(FIXED_PREFIX).is_err());
        assert!(
            SstPartitionerFactory::parse("{id=SstPartitionerFixedPrefixFactory;size=3}").is_err()
        );
    }
}
