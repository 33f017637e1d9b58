//! The version builder by text, and against a plain model by seed.

use std::fmt::Write as _;
use std::sync::Arc;

use pumice_manifest::{
    BlobFileMetaData, FileMetaData, Version, VersionBuilder, VersionEdit,
    edit::{BlobFileAddition, BlobFileGarbage},
};

use pumice_manifest::testing::{self as text, Command, number, parse_file};

/// `+L1 9 a..b`, `-L1 9`, `+blob 5 COUNT BYTES`, `-blob 5 COUNT BYTES`; `edit` starts another.
fn parse_edits(command: &Command) -> Vec<VersionEdit> {
    let mut edits = vec![VersionEdit::default()];
    for line in &command.input {
        let edit = edits.last_mut().unwrap();
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<_> = rest.split(' ').collect();
        match (head.split_at(1), &head[1..]) {
            _ if line == "edit" => edits.push(VersionEdit::default()),
            (("+", _), "blob") => edit.blob_additions.push(BlobFileAddition {
                number: number(words[0]),
                blob_count: number(words[1]),
                blob_bytes: number(words[2]),
                ..Default::default()
            }),
            (("-", _), "blob") => edit.blob_garbage.push(BlobFileGarbage {
                number: number(words[0]),
                garbage_count: number(words[1]),
                garbage_bytes: number(words[2]),
            }),
            (("+", level), _) => {
                edit.add_file(number(&level[1..]) as usize, Arc::new(parse_file(rest)));
            }
            ((_, level), _) => edit.delete_file(number(&level[1..]) as usize, number(rest)),
        }
    }
    edits
}

fn apply(version: &Arc<Version>, command: &Command) -> pumice_base::Result<Arc<Version>> {
    let mut builder = VersionBuilder::new(version.clone());
    parse_edits(command).iter().try_for_each(|edit| builder.apply(edit))?;
    builder.build()
}

fn show_blobs(version: &Version) -> String {
    version.blob_files().values().fold(String::new(), |mut out, blob| {
        let BlobFileMetaData { shared, garbage_count, garbage_bytes } = &**blob;
        let BlobFileAddition { number, blob_count, blob_bytes, .. } = &shared.addition;
        writeln!(out, "blob {number}: {garbage_count}/{blob_count} {garbage_bytes}/{blob_bytes}")
            .unwrap();
        out
    })
}

#[test]
fn builder_text() {
    let mut version = Version::empty(text::comparator(None), 7);
    crate::run_file("tests/testdata/builder.txt", |command| {
        let next = match command.name.as_str() {
            "define" => text::define(command),
            "apply" => apply(&version, command),
            "shared" => {
                let next = apply(&version, command).unwrap();
                let pairs = version.levels().iter().zip(next.levels());
                let shared = pairs.filter(|(a, b)| Arc::ptr_eq(a, b)).count();
                return format!("{shared} of {} levels shared", version.num_levels());
            }
            other => panic!("unknown command {other}"),
        };
        match next {
            Ok(next) => {
                version = next;
                text::show_version(&version) + &show_blobs(&version)
            }
            Err(error) => error.to_string(),
        }
    });
}

/// Where files may overlap, the level says so for as long as they do.
#[test]
fn levels_say_whether_their_files_overlap() {
    let file = |number: u64, first: &[u8], last: &[u8]| {
        let internal = |key: &[u8]| [key, &(number << 8 | 1).to_le_bytes()].concat();
        let (smallest, largest) = (internal(first), internal(last));
        let epoch_number = number;
        Arc::new(FileMetaData { number, smallest, largest, epoch_number, ..Default::default() })
    };
    let edit = |added: &[Arc<FileMetaData>], deleted: &[u64]| {
        let mut edit = VersionEdit::for_column_family(0);
        added.iter().for_each(|file| edit.add_file(1, file.clone()));
        deleted.iter().for_each(|number| edit.delete_file(1, *number));
        edit
    };
    let change = |base: &Arc<Version>, edit: &VersionEdit, may: bool| {
        let mut builder = VersionBuilder::new(base.clone()).may_overlap(may);
        builder.apply(edit).unwrap();
        builder.build()
    };
    let empty = Version::empty(text::comparator(None), 3);
    // The last file does not have the last key, and its keys begin differently.
    let files = [file(1, b"key1", b"z"), file(2, b"key2", b"l"), file(3, b"k", b"kez")];
    let error = change(&empty, &edit(&files, &[]), false).unwrap_err();
    assert!(error.message().contains("L1 has overlapping ranges: file #"), "{error}");
    let version = change(&empty, &edit(&files, &[]), true).unwrap();
    assert!(version.is_overlapping() && version.level(1).is_overlapping());
    assert_eq!(version.files(1).iter().map(|f| f.number).collect::<Vec<_>>(), [3, 1, 2]);
    // Also between files that were there before.
    assert!(change(&version, &edit(&[], &[3]), false).is_err());
    let version = change(&version, &edit(&[], &[3]), true).unwrap();
    assert!(version.is_overlapping());
    let version = change(&version, &edit(&[], &[1]), false).unwrap();
    assert!(!version.is_overlapping() && !version.level(1).is_overlapping());
    // What a file with its ends in the wrong order holds is not known.
    let turned = edit(&[file(4, b"b", b"a")], &[]);
    let error = change(&empty, &turned, true).unwrap_err();
    assert!(error.message().contains("L1 file #4 smallest key"), "{error}");
}
