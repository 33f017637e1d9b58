//! Blob files: options on the command line, indexes in words, files as text, compared with Debian's
//! ldb.

use std::path::Path;

use super::{Printed, copy, ours, scratch, theirs};

/// A database with two blob files and a value in its table, which `engine` wrote.
fn make_blobs(dir: &Path, engine: fn(&Path, &str, &str) -> Printed) {
    for (key, value) in [("a", "v".repeat(40)), ("b", "w".repeat(50)), ("c", "short".into())] {
        let words = format!(
            "--db=made --create_if_missing --enable_blob_files --min_blob_size=10 \
             --blob_compression_type=lz4 put {key} {value}"
        );
        let printed = engine(dir, &words, "");
        assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
    }
    let printed = engine(dir, "--db=made compact", "");
    assert_eq!(printed.0, Some(0), "{printed:?}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn blob_files_are_shown_alike() {
    let Some((root, our_dir, their_dir)) = scratch("blobs") else { return };
    make_blobs(&root.0, theirs);
    let mut blobs: Vec<_> = std::fs::read_dir(root.0.join("made")).unwrap().collect();
    blobs.retain(|file| {
        file.as_ref().unwrap().path().extension().is_some_and(|name| name == "blob")
    });
    assert_eq!(blobs.len(), 2);
    let blob = blobs.pop().unwrap().unwrap().file_name().into_string().unwrap();
    for words in [
        format!("dump --path=d/{blob}"),
        format!("dump --path=d/{blob} --hex"),
        format!("dump --path=d/{blob} --key_hex"),
        format!("dump --path=d/{blob} --dump_uncompressed_blobs"),
        format!("dump --path=d/{blob} --dump_uncompressed_blobs --hex"),
        "--db=d dump".into(),
        "--db=d dump --decode_blob_index".into(),
        "--db=d idump".into(),
        "--db=d idump --decode_blob_index".into(),
        "--db=d idump --decode_blob_index --hex".into(),
        "--db=d dump_live_files".into(),
        "--db=d dump_live_files --decode_blob_index --dump_uncompressed_blobs".into(),
        "--db=d list_live_files_metadata".into(),
        "--db=d list_live_files_metadata --sort_by_filename".into(),
        "--db=d manifest_dump".into(),
        "--db=d get b".into(),
    ] {
        copy(&root.0, &our_dir);
        copy(&root.0, &their_dir);
        let (mine, peer) = (ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""));
        assert!(mine == peer, "{words}\n  ours   {mine:?}\n  theirs {peer:?}");
    }
    // RocksDB's tool lists them in the order of a hash table.
    copy(&root.0, &our_dir);
    copy(&root.0, &their_dir);
    let sorted = |printed: Printed| {
        let mut lines: Vec<_> = printed.1.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    let words = "--db=d file_checksum_dump";
    let mine = sorted(ours(&our_dir, words, ""));
    assert_eq!((mine.len(), &mine), (4, &sorted(theirs(&their_dir, words, ""))));
}

/// A damaged blob file shows what is before the damage, and fails.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn damaged_blob_files_are_named() {
    let Some((root, dir, _)) = scratch("damaged-blobs") else { return };
    make_blobs(&root.0, ours);
    let files = std::fs::read_dir(root.0.join("made")).unwrap().map(|file| file.unwrap().path());
    let blob = files.filter(|file| file.extension().is_some_and(|name| name == "blob")).min();
    let whole = std::fs::read(blob.unwrap()).unwrap();
    let file = dir.join("000009.blob");
    let dump = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        ours(&dir, "dump --path=000009.blob", "")
    };
    let totals = |records: u32| format!("Summary:\n  total records: {records}\n");
    let printed = dump(&whole);
    assert!(printed.0 == Some(0) && printed.1.contains(&totals(1)), "{printed:?}");
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    // In the magic number, a length, the value, the footer; then a file that was cut.
    for (bytes, records, error) in [
        (changed(0), 0, "Corruption: Blob file header: magic number mismatch"),
        (changed(31), 0, "Corruption: Blob record: header CRC mismatch"),
        (changed(whole.len() - 33), 0, "Corruption: "),
        (whole[..whole.len() - 40].to_vec(), 0, "Corruption: Reach the end of the file"),
        (whole[..10].to_vec(), 0, "Corruption: Reach the end of the file"),
    ] {
        let printed = dump(&bytes);
        assert_eq!(printed.0, Some(1), "{printed:?}");
        assert!(printed.2.contains(error), "{printed:?}");
        let summed = printed.1.contains("Summary");
        assert!(!summed || printed.1.contains(&totals(records)), "{printed:?}");
    }
    let printed = dump(&whole[..whole.len() - 32]);
    let no_footer = printed.1.contains("No blob log footer.\n") && printed.1.contains(&totals(1));
    assert!(printed.0 == Some(0) && no_footer, "{printed:?}");
}

/// Options of blob files that the command line gives wrongly.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn options_of_blob_files_are_checked() {
    let Some((_root, our_dir, their_dir)) = scratch("blob-options") else { return };
    for words in [
        "--blob_file_size=0",
        "--min_blob_size=-1",
        "--blob_compaction_readahead_size=0",
        "--blob_compression_type=nosuch",
        "--blob_garbage_collection_age_cutoff=1.5",
        "--blob_garbage_collection_force_threshold=-0.5",
    ] {
        let words = format!("--db=d put k v --create_if_missing {words}");
        let (mine, peer) = (ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""));
        assert_eq!(mine.0, Some(1), "{words}: {mine:?}");
        assert!(mine.2 == peer.2, "{words}\n  ours   {mine:?}\n  theirs {peer:?}");
    }
}
