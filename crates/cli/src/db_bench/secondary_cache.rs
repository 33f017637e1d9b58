//! The secondary cache that the flags ask for.
//!
//! Pure functions.

use pumice::options::text::parse_map;
use pumice::options::value::OptionValue;
use pumice::{CompressedSecondaryCacheOptions, CompressionType, TieredAdmissionPolicy};

use super::engine::Result;
use super::engine_options;
use super::flags::Flags;
use super::pumice_engine::text;

/// What the flags make of the secondary cache.
pub enum Secondary {
    /// It has a capacity of its own.
    Own(CompressedSecondaryCacheOptions),
    /// It shares one with the block cache.
    Tier(CompressedSecondaryCacheOptions, TieredAdmissionPolicy),
}

/// The options of the secondary cache, if the flags ask for one.
///
/// # Errors
/// RocksDB's db_bench would refuse the flags, or they ask for a third tier.
pub fn wanted(flags: &Flags) -> Result<Option<Secondary>> {
    let from_uri = |uri| {
        from_uri(uri).map_err(|status| {
            format!("No secondary cache registered matching string: {uri} status={status}")
        })
    };
    match (flags.secondary_cache_uri.as_str(), flags.use_compressed_secondary_cache) {
        ("", false) => Ok(None),
        (uri, false) => Ok(Some(Secondary::Own(from_uri(uri)?))),
        (uri, true) if flags.use_tiered_cache => {
            let policy = policy(&flags.tiered_adm_policy)?;
            let has_third = !uri.is_empty();
            if has_third {
                from_uri(uri)?;
            }
            let policy = policy_for(policy, has_third)?;
            Ok(Some(Secondary::Tier(from_flags(flags)?, policy)))
        }
        ("", true) => Ok(Some(Secondary::Own(from_flags(flags)?))),
        (_, true) => Err("Cannot specify both --secondary_cache_uri and \
                          --use_compressed_secondary_cache when using a non-tiered cache"
            .into()),
    }
}

/// The policy of that name; `None`: the one for three tiers.
fn policy(name: &str) -> Result<Option<TieredAdmissionPolicy>> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "auto" => Some(TieredAdmissionPolicy::Auto),
        "placeholder" => Some(TieredAdmissionPolicy::Placeholder),
        "allow_cache_hits" => Some(TieredAdmissionPolicy::AllowCacheHits),
        "allow_all" => Some(TieredAdmissionPolicy::AllowAll),
        "three_queue" => None,
        _ => return Err(format!("Cannot parse admission policy {name}")),
    })
}

/// The policy, if RocksDB makes a cache with it and Pumice can.
fn policy_for(
    policy: Option<TieredAdmissionPolicy>,
    has_third: bool,
) -> Result<TieredAdmissionPolicy> {
    match (policy, has_third) {
        (Some(policy), false) => Ok(policy),
        (None | Some(TieredAdmissionPolicy::Auto), true) => {
            Err("secondary_cache_uri with use_tiered_cache is not supported yet: it needs a third \
                 tier"
                .into())
        }
        _ => Err("Unable to allocate block cache".into()),
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
    fn one_budget_for_both() {
        let both = ["--use_compressed_secondary_cache", "--use_tiered_cache", "--cache_size=3000"];
        let with = |more: &[&str]| cache(&[both.as_slice(), more].concat());
        for policy in ["auto", "PLACEHOLDER", "allow_cache_hits", "allow_all"] {
            let made = with(&["--tiered_adm_policy", policy]).unwrap();
            let second = made.secondary_cache().unwrap().capacity();
            assert_eq!(made.capacity(), 3000 + (32 << 20));
            assert!(second.abs_diff(32 << 20) <= 1 && made.usage() == second, "{second}");
        }
        let why = |more: &[&str]| with(more).map(drop).unwrap_err();
        let policy = |name| ["--tiered_adm_policy", name];
        let uri = "--secondary_cache_uri=compressed_secondary_cache://capacity=1000";
        assert_eq!(why(&policy("none")), "Cannot parse admission policy none");
        assert_eq!(why(&policy("three_queue")), "Unable to allocate block cache");
        assert_eq!(why(&[&[uri], &policy("allow_all")[..]].concat()), why(&policy("three_queue")));
        assert!(why(&[uri]).ends_with("it needs a third tier"));
        assert!(why(&["--secondary_cache_uri=x"]).starts_with("No secondary cache registered"));
        assert!(why(&["--simcache_size=1"]).starts_with("simcache_size with"));
        // As in RocksDB, without effect where there is no secondary cache.
        assert!(cache(&["--use_tiered_cache"]).unwrap().secondary_cache().is_none());
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
