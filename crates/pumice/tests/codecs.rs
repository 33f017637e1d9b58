//! A build without the codecs that need a C compiler: `--no-default-features`.
//!
//! A separate program, since the others need the codecs.
#![cfg(not(any(feature = "lz4", feature = "zstd")))]
#![allow(clippy::unwrap_used)]

mod common;

use common::{DIR, contents, fill, memory, options};
use pumice::{Db, ErrorKind};

/// Each codec is refused by its name, at once and not by a flush; the others work.
#[pumice_test_macros::test]
fn what_is_not_built_is_refused_by_name() {
    let (_, fs) = memory();
    for (name, feature) in
        [("kLZ4Compression", "lz4"), ("kLZ4HCCompression", "lz4"), ("kZSTD", "zstd")]
    {
        for option in ["compression", "bottommost_compression", "compression_per_level"] {
            let error = options(&fs).set(option, name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported);
            let text = error.to_string();
            assert!(
                text.contains(name) && text.contains(feature) && text.contains(option),
                "{text}"
            );
        }
    }
    let error = options(&fs).set("sample_for_compression", "10").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    let mut assigned = options(&fs);
    assigned.cf.compression = pumice::CompressionType::Zstd;
    let error = Db::open(&assigned, DIR).map(drop).unwrap_err();
    assert!(error.to_string().contains("kZSTD"), "{error}");

    for codec in ["kNoCompression", "kSnappyCompression", "kZlibCompression", "kBZip2Compression"] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.set("compression", codec).unwrap();
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..1000, "value");
        db.flush().unwrap();
        assert_eq!(contents(&db).len(), 1000, "{codec}");
        db.close().unwrap();
    }
}
