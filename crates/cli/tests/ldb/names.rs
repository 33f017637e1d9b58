//! A column family whose name is not UTF-8, made by Debian's ldb: `pumice ldb` lists its bytes,
//! finds it by the text of its name, and Debian's tool finds what it has written.

use super::{ours, scratch, theirs};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Output};

fn debian(dir: &std::path::Path, words: &[&[u8]]) -> Output {
    let words = words.iter().map(|word| OsString::from_vec(word.to_vec()));
    Command::new("ldb").current_dir(dir).args(words).output().unwrap()
}

#[pumice_test_macros::test]
fn a_family_is_found_by_the_bytes_of_its_name() {
    let Some((_root, dir, _)) = scratch("names") else { return };
    assert_eq!(theirs(&dir, "--db=d --create_if_missing put a 1", "").0, Some(0));
    assert!(debian(&dir, &[b"--db=d", b"create_column_family", b"caf\xe9"]).status.success());
    let family = b"--column_family=caf\xe9";
    assert!(debian(&dir, &[b"--db=d", family, b"put", b"x", b"theirs"]).status.success());
    let listed = |tool: &mut Command| {
        tool.current_dir(&dir).args(["--db=d", "list_column_families"]).output().unwrap().stdout
    };
    let mine = listed(Command::new(env!("CARGO_BIN_EXE_pumice")).arg("ldb"));
    assert_eq!(mine, listed(&mut Command::new("ldb")));
    assert!(mine.windows(4).any(|bytes| bytes == b"caf\xe9"));
    let line = "--db=d --column_family=caf\\xE9";
    assert_eq!(ours(&dir, &format!("{line} get x"), "").1, "theirs\n");
    assert_eq!(ours(&dir, &format!("{line} put y ours"), "").0, Some(0));
    assert_eq!(debian(&dir, &[b"--db=d", family, b"get", b"y"]).stdout, b"ours\n");
    // The bytes themselves are a name, too.
    let mut raw = Command::new(env!("CARGO_BIN_EXE_pumice"));
    let words = [&b"ldb"[..], b"--db=d", family, b"get", b"y"];
    raw.current_dir(&dir).args(words.map(|word| OsString::from_vec(word.to_vec())));
    assert_eq!(raw.output().unwrap().stdout, b"ours\n");
    assert_eq!(ours(&dir, "--db=d repair", "").0, Some(0));
    assert_eq!(debian(&dir, &[b"--db=d", family, b"get", b"x"]).stdout, b"theirs\n");
    assert_eq!(ours(&dir, "--db=d drop_column_family caf\\xE9", "").0, Some(0));
    let left = theirs(&dir, "--db=d list_column_families", "");
    assert!(left.1.contains("{default}"), "{left:?}");
}
