//! Caches by text, as RocksDB's `Cache::CreateFromString` takes them (11.8).
//!
//! Thread safety: pure functions.

use pumice_base::{Error, Result};
use pumice_cache::CacheOptions;

use super::value::{OptionValue, Refusal, members};

/// What RocksDB's cache of a text has and this one has not: bounds only.
struct LruOptions {
    num_shard_bits: i32,
    high_pri_pool_ratio: f64,
    low_pri_pool_ratio: f64,
}

/// The cache that `text` stands for: a number of bytes, or
/// `capacity=64M;strict_capacity_limit=true` with any of RocksDB's names for an LRU cache. Shards
/// and pools of priorities are accepted within RocksDB's bounds and have no effect.
///
/// None where RocksDB makes no cache either: `null`, a URI (`scheme://..`), of which none is
/// registered, and numbers of shards or sizes of pools that it does not take.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::options::cache_from_text;
/// assert_eq!(cache_from_text("64M")?.unwrap().capacity, 64 << 20);
/// let strict = cache_from_text("capacity=1G;strict_capacity_limit=true")?.unwrap();
/// assert!(strict.strict_capacity_limit);
/// assert_eq!(cache_from_text("null")?, None);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// InvalidArgument for other text.
pub fn cache_from_text(text: &str) -> Result<Option<CacheOptions>> {
    if text.starts_with("null") || text.contains("://") {
        return Ok(None);
    }
    if !text.contains('=') {
        let bytes = usize::parse(text).map_err(|refusal| bad_value("capacity", refusal))?;
        return Ok(Some(CacheOptions::new(bytes)));
    }
    let mut cache = CacheOptions::new(0);
    let mut lru =
        LruOptions { num_shard_bits: -1, high_pri_pool_ratio: 0.5, low_pri_pool_ratio: 0.0 };
    for (name, value) in members(text).map_err(|refusal| bad_value("cache", refusal))? {
        let updated = match name.as_str() {
            "capacity" => cache.capacity.update(&value),
            "strict_capacity_limit" => cache.strict_capacity_limit.update(&value),
            "num_shard_bits" => lru.num_shard_bits.update(&value),
            "high_pri_pool_ratio" => lru.high_pri_pool_ratio.update(&value),
            "low_pri_pool_ratio" => lru.low_pri_pool_ratio.update(&value),
            // The dot is RocksDB's: the structure has no name.
            _ => return Err(Error::invalid_argument(format!("Unrecognized option: .{name}"))),
        };
        updated.map_err(|refusal| bad_value(&name, refusal))?;
    }
    Ok(lru.exists().then_some(cache))
}

impl LruOptions {
    /// RocksDB makes such a cache.
    fn exists(&self) -> bool {
        let (high, low) = (self.high_pri_pool_ratio, self.low_pri_pool_ratio);
        self.num_shard_bits < 20
            && [high, low, high + low].iter().all(|ratio| (0.0..=1.0).contains(ratio))
    }
}

fn bad_value(name: &str, refusal: Refusal) -> Error {
    let why = match refusal {
        Refusal::Parse(why)
        | Refusal::Bounds(why)
        | Refusal::Unsupported(why)
        | Refusal::UnknownName(why) => why,
    };
    Error::invalid_argument(format!("Error parsing {name}: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn texts_are_those_of_rocksdb() {
        let made = |text: &str| cache_from_text(text).unwrap();
        let lax = |capacity| Some(CacheOptions::new(capacity));
        assert_eq!(made("1048576"), lax(1 << 20));
        assert_eq!(made("3k"), lax(3 << 10));
        assert_eq!(made("capacity=2M"), lax(2 << 20));
        assert_eq!(made("{capacity=2M;num_shard_bits=4;}"), lax(2 << 20));
        assert_eq!(made("num_shard_bits=19"), lax(0));
        let strict = CacheOptions { strict_capacity_limit: true, ..CacheOptions::new(7) };
        assert_eq!(made("strict_capacity_limit=true;capacity=7"), Some(strict));
        assert_eq!(made("capacity=7;high_pri_pool_ratio=0.4;low_pri_pool_ratio=0.6"), lax(7));
        for none in [
            "null",
            "nullptr",
            "lru_cache://capacity=7",
            "capacity=7;num_shard_bits=20",
            "capacity=7;high_pri_pool_ratio=1.5",
            "capacity=7;high_pri_pool_ratio=-0.5",
            "capacity=7;high_pri_pool_ratio=0.6;low_pri_pool_ratio=0.5",
        ] {
            assert_eq!(made(none), None, "{none}");
        }
        let refused = |text: &str| cache_from_text(text).unwrap_err().message().to_string();
        assert_eq!(refused("id=LRUCache;capacity=7"), "Unrecognized option: .id");
        for (text, words) in [
            ("HyperClockCache", "Error parsing capacity: "),
            ("", "Error parsing capacity: "),
            ("capacity=much", "Error parsing capacity: "),
            ("capacity=7;strict_capacity_limit=perhaps", "Error parsing strict_capacity_limit: "),
        ] {
            assert!(refused(text).starts_with(words), "{text}: {}", refused(text));
        }
    }
}
