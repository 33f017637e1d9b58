//! Entries that no block can hold are refused one by one, before any part of them is written: the
//! other entries make the same table as if they had never been added.

use std::path::Path;

use crate::support;
use pumice_base::key::internal_key;
use pumice_base::random::Rng;
use pumice_base::{ErrorKind, SizeLimits, ValueType};
use pumice_env::{BufferedWriter, FileOptions, FileSystem, MemFs, WriterOptions};
use pumice_table::{TableBuildContext, TableBuilder, TableReadOptions};

const BLOCK_BYTES: usize = 4096;
/// Overhead bytes of an entry and of a block's footer, without user data.
const OVERHEAD_BYTES: usize = 64;

/// Key and value of `kind`, `bytes` bytes together with the trailer, of which `key_bytes` are key.
fn entry(n: usize, kind: ValueType, key_bytes: usize, bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let user = format!("{n:08}{}", "k".repeat(key_bytes.saturating_sub(16)));
    let key = internal_key(user.as_bytes(), 7, kind);
    // The end of a range is not below its begin.
    let value = vec![b'z'; bytes.saturating_sub(key.len()).max(9)];
    (key, value)
}

#[pumice_test_macros::test]
fn what_no_block_can_hold_is_refused_and_the_rest_is_stored() {
    let mut rng = Rng::new(0x1a_29e);
    for round in 0..40 {
        let context = TableBuildContext {
            limits: SizeLimits::lowered(BLOCK_BYTES),
            ..TableBuildContext::default()
        };
        let fs = MemFs::new(1);
        let path = Path::new("/t.sst");
        let file = fs.create(path, &FileOptions::default()).unwrap();
        let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
        let mut builder = TableBuilder::new(context.clone(), writer).unwrap();
        let (mut kept, mut refused) = (Vec::new(), 0);
        for n in 0..60 {
            let around = [40, 900, BLOCK_BYTES - OVERHEAD_BYTES, BLOCK_BYTES, BLOCK_BYTES * 3];
            let bytes = around[rng.uniform(5) as usize] + rng.uniform(12) as usize - 6;
            // Long keys and many ranges would fill the index and the block of ranges, which have
            // other limits.
            let kinds = [ValueType::Value, ValueType::Merge, ValueType::RangeDeletion];
            let choices = if bytes > BLOCK_BYTES { 3 } else { 2 };
            let kind = kinds[rng.uniform(choices) as usize];
            let key_bytes = if choices == 3 { [16, bytes][rng.uniform(2) as usize] } else { 16 };
            let (key, value) = entry(n, kind, key_bytes, bytes);
            let bytes = key.len() + value.len();
            let (fits, never) = (bytes <= BLOCK_BYTES - OVERHEAD_BYTES, bytes > BLOCK_BYTES);
            match builder.add(&key, &value) {
                Ok(()) => {
                    assert!(!never, "round {round}: {kind:?} of {} + {}", key.len(), value.len());
                    kept.push((key, value));
                }
                Err(error) => {
                    assert!(!fits, "round {round}: {kind:?} of {} + {}", key.len(), value.len());
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                    let what = if key.len() > BLOCK_BYTES - 64 { "key" } else { "value" };
                    assert!(error.to_string().contains(what), "{error}: {}", key.len());
                    refused += 1;
                }
            }
        }
        assert!(refused > 5 && kept.len() > 5, "round {round}: {refused}, {}", kept.len());
        builder.finish_file(true, false).unwrap();
        let bytes = fs.read_file(path).unwrap();
        let table = support::open(support::read_context(&context), &bytes).unwrap();
        let mut iter = table.iter(&TableReadOptions::default());
        iter.seek_to_first();
        for (key, value) in &kept {
            assert_eq!(
                (iter.key().as_bytes(), iter.value()),
                (&key[..], &value[..]),
                "round {round}"
            );
            iter.next();
        }
        assert!(!iter.valid());
        iter.status().unwrap();
    }
}
