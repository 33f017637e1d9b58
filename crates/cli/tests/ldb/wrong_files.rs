//! Commands about one file, with a file of another kind: the text is that of Debian's ldb. Where
//! that one exits with 0 all the same, ours exits with 1, and the text begins with `Failed: `.

use super::values::with_files;
use super::{copy, make, ours, scratch, theirs};

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn what_is_no_manifest_is_told() {
    let Some((root, our_dir, their_dir)) = scratch("no-manifest") else { return };
    make(&root.0);
    copy(&root.0, &our_dir);
    copy(&root.0, &their_dir);
    for file in ["$T", "$W", "d/CURRENT", "d/nosuch", "d/MANIFEST-999", "d"] {
        let words = with_files(&format!("manifest_dump --path={file}"), &our_dir);
        let (mine, peer) = (ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""));
        assert_eq!(peer.0, Some(0), "{words}: {peer:?}");
        assert_eq!(mine, (Some(1), String::new(), format!("Failed: {}", peer.2)), "{words}");
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn what_is_no_log_is_told() {
    let Some((root, our_dir, their_dir)) = scratch("no-log") else { return };
    make(&root.0);
    copy(&root.0, &our_dir);
    copy(&root.0, &their_dir);
    for words in ["dump_wal --walfile=$M", "dump_wal --walfile=$M --header --print_value"] {
        let words = with_files(words, &our_dir);
        let (mine, peer) = (ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""));
        assert_eq!((mine.0, &mine.1), (peer.0, &peer.1), "{words}");
        // Which tag it is, ours says, too.
        let text = "Failed: Print write batch error: Corruption: unknown WriteBatch tag";
        assert!(peer.2.starts_with(text) && mine.2.starts_with(text), "{mine:?} {peer:?}");
    }
    for file in ["$T", "d/CURRENT", "d/nosuch"] {
        let words = with_files(&format!("dump_wal --walfile={file}"), &our_dir);
        assert_eq!(ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""), "{words}");
    }
}
