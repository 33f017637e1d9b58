//! The version builder by text, and against a plain model by seed.

use std::fmt::Write as _;
use std::sync::Arc;

use pumice_manifest::{
    BlobFileMetaData, Version, VersionBuilder, VersionEdit,
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
        let BlobFileMetaData { addition, garbage_count, garbage_bytes } = &**blob;
        let BlobFileAddition { number, blob_count, blob_bytes, .. } = addition;
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
