//! The secondary cache that the flags ask for.
//!
//! Pure functions.

use pumice::options::text::parse_map;
use pumice::options::value::OptionValue;
use pumice::{CompressedSecondaryCacheOptions, CompressionType};

use super::engine::Result;
use super::engine_options;
use super::flags::Flags;
use super::pumice_engine::text;

/// The options of the secondary cache, if the flags ask for one.
///
/// # Errors
/// RocksDB's db_bench would refuse the flags.
pub fn wanted(flags: &Flags) -> Result<Option<CompressedSecondaryCacheOptions>> {
    match (flags.secondary_cache_uri.as_str(), flags.use_compressed_secondary_cache) {
        ("", false) => Ok(None),
        ("", true) => from_flags(flags).map(Some),
        (uri, false) => from_uri(uri).map(Some).map_err(|status| {
            format!("No secondary cache registered matching string: {uri} status={status}")
        }),
        (_, true) => Err("Cannot specify both --secondary_cache_uri and \
                          --use_compressed_secondary_cache when using a non-tiered cache"
            .into()),
    }
}

/// The options of a secondary cache of compressed blocks.
fn from_flags(flags: &Flags) -> Result<CompressedSecondaryCacheOptions> {
    let codec = engine_options::codec(&flags.compressed_secondary_cache_compression_type)?;
    let capacity = usize::try_from(flags.compressed_secondary_cache_size).unwrap_or(0);
    let mut options = CompressedSecondaryCacheOptions::new(capacity);
    options.compression_type =
        CompressionType::from_option_name(codec).ok_or("no such compression type")?;
    options.compression_opts.level = flags.compressed_secondary_cache_compression_level;
    Ok(options)
}

/// The options that a URI names, as RocksDB's `SecondaryCache::CreateFromString` takes it; the
/// error is its status.
fn from_uri(uri: &str) -> Result<CompressedSecondaryCacheOptions> {
    let Some(options) = uri.strip_prefix("compressed_secondary_cache://") else {
        return Err(format!("Not implemented: Could not load SecondaryCache: {uri}"));
    };
    let mut made = CompressedSecondaryCacheOptions::new(0);
    for (name, value) in parse_map(options).map_err(text)? {
        let bad = || format!("Invalid argument: Error parsing:: {name}");
        match name.as_str() {
            "capacity" => {
                let bytes = u64::parse(&value).map_err(|_| bad())?;
                made.capacity = usize::try_from(bytes).map_err(|_| bad())?;
            }
            "compression_type" => {
                made.compression_type =
                    CompressionType::from_option_name(&value).ok_or_else(bad)?;
            }
            // It has no shards, and its entries are not split.
            "num_shard_bits" if i32::parse(&value).is_ok() => {}
            "enable_custom_split_merge" if bool::parse(&value).is_ok() => {}
            "num_shard_bits" | "enable_custom_split_merge" => return Err(bad()),
            _ => return Err(format!("Invalid argument: Unrecognized option: .{name}")),
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ffi::OsString;
    use std::sync::Arc;

    use pumice::BlockCache;

    use super::*;
    use crate::db_bench::caches::block_cache;
    use crate::db_bench::flags::parse;

    fn cache(words: &[&str]) -> Result<Arc<BlockCache>> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        match parse(&words, &mut |_| ()) {
            Ok(flags) => block_cache(&flags),
            Err(stop) => panic!("{stop:?}"),
        }
    }

    fn refused(words: &[&str]) -> String {
        cache(words).map(drop).unwrap_err()
    }

    #[pumice_test_macros::test]
    fn flags_make_a_secondary_cache() {
        assert!(cache(&["--cache_size=1000"]).unwrap().secondary_cache().is_none());
        let both = cache(&["--use_compressed_secondary_cache"]).unwrap();
        assert_eq!(both.secondary_cache().unwrap().capacity(), 32 << 20);
        let both = cache(&[
            "--use_compressed_secondary_cache=1",
            "--compressed_secondary_cache_size=5000",
            "--compressed_secondary_cache_compression_type=ZSTD",
            "--compressed_secondary_cache_compression_level=5",
            "--compressed_secondary_cache_numshardbits=2",
        ]);
        assert_eq!(both.unwrap().secondary_cache().unwrap().capacity(), 5000);
        // As in RocksDB's: without a size, or with a cache by text, it has no effect.
        for other in ["--cache_size=0", "--cache_uri=1000"] {
            let one = cache(&["--use_compressed_secondary_cache", other]).unwrap();
            assert!(one.secondary_cache().is_none(), "{other}");
        }
        let both = refused(&["--use_compressed_secondary_cache", "--simcache_size=1000"]);
        assert_eq!(both, "simcache_size with a secondary cache is not supported yet");
        let codec = "--compressed_secondary_cache_compression_type=lz5";
        let refused = refused(&["--use_compressed_secondary_cache", codec]);
        assert_eq!(refused, "Cannot parse compression type 'lz5'");
    }

    #[pumice_test_macros::test]
    fn a_uri_makes_one_too() {
        let uri = "compressed_secondary_cache://capacity=64K;num_shard_bits=3;\
                   compression_type=kZSTD;enable_custom_split_merge=true";
        let both = cache(&["--secondary_cache_uri", uri]).unwrap();
        assert_eq!(both.secondary_cache().unwrap().capacity(), 64 << 10);
        let made = from_uri(uri).unwrap();
        assert_eq!((made.capacity, made.compression_type), (64 << 10, CompressionType::Zstd));
        assert_eq!(from_uri("compressed_secondary_cache://").unwrap().capacity, 0);
        for (uri, status) in [
            ("rocks://x", "Not implemented: Could not load SecondaryCache: rocks://x"),
            (
                "compressed_secondary_cache://level=3",
                "Invalid argument: Unrecognized option: .level",
            ),
            (
                "compressed_secondary_cache://compression_type=lz4",
                "Invalid argument: Error parsing:: compression_type",
            ),
            (
                "compressed_secondary_cache://num_shard_bits=x",
                "Invalid argument: Error parsing:: num_shard_bits",
            ),
            (
                "compressed_secondary_cache://capacity",
                "Invalid argument: Mismatched key value pair, '=' expected",
            ),
        ] {
            let all = ["No secondary cache registered matching string: ", uri, " status=", status];
            let all = all.concat();
            assert_eq!(refused(&["--secondary_cache_uri", uri]), all);
        }
        let both = ["--use_compressed_secondary_cache", "--secondary_cache_uri", uri];
        assert!(refused(&both).starts_with("Cannot specify both"));
    }
}
