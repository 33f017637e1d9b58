//! The MANIFEST of a database, and one edit alone.

use std::sync::Arc;

use pumice_base::random::Rng;
use pumice_manifest::{FileMetaData, VersionEdit};

use crate::database::{Files, exam, honest, named};
use crate::mutate::number;
use crate::{Outcome, Target, frames, mutate};

pub struct Manifest {
    files: Files,
    name: String,
}

impl Manifest {
    pub fn new() -> Self {
        let files = honest();
        let name = named(&files, "MANIFEST");
        Manifest { files, name }
    }
}

/// A copy of `file` with one number changed.
fn changed(file: &FileMetaData, rng: &mut Rng) -> FileMetaData {
    let mut copy = file.clone();
    let other = number(rng);
    match rng.uniform(12) {
        0 => copy.number = other,
        1 => copy.file_size = other,
        2 => copy.smallest_seq = other,
        3 => copy.largest_seq = other,
        4 => copy.epoch_number = other,
        5 => copy.oldest_ancester_time = other,
        6 => copy.file_creation_time = other,
        7 => copy.tail_size = other,
        8 => copy.compensated_range_deletion_size = other,
        9 => copy.oldest_blob_file_number = other,
        10 => mutate::once(&mut copy.smallest, &[], rng),
        _ => mutate::once(&mut copy.largest, &[], rng),
    }
    copy
}

/// Changes one field of an edit.
fn change_field(edit: &mut VersionEdit, rng: &mut Rng) {
    let other = number(rng);
    match rng.uniform(14) {
        0 => edit.log_number = Some(other),
        1 => edit.prev_log_number = Some(other),
        2 => edit.next_file_number = Some(other),
        3 => edit.last_sequence = Some(other),
        4 => edit.min_log_number_to_keep = Some(other),
        5 => edit.max_column_family = Some(other as u32),
        6 => edit.column_family = other as u32,
        7 => edit.atomic_group_remaining = Some(other as u32),
        8 => edit.add_column_family = Some(format!("cf{}", rng.uniform(3))),
        9 => edit.drop_column_family ^= true,
        10 => edit.deleted_files.push((rng.uniform(8) as usize, rng.uniform(30))),
        _ => {
            let at = rng.uniform(edit.new_files.len() as u64) as usize;
            if let Some((level, file)) = edit.new_files.get_mut(at) {
                match rng.one_in(5) {
                    true => *level = rng.uniform(9) as usize,
                    false => *file = Arc::new(changed(file, rng)),
                }
            }
        }
    }
}

/// Changes the record of an edit, its fields or its bytes.
fn change_record(record: &mut Vec<u8>, donors: &[Vec<u8>], rng: &mut Rng) {
    match VersionEdit::decode(record) {
        Ok(mut edit) if !rng.one_in(3) => {
            for _ in 0..=rng.skewed(2) {
                change_field(&mut edit, rng);
            }
            *record = edit.encode();
        }
        _ => mutate::some(record, donors, rng),
    }
}

impl Target for Manifest {
    fn honest(&self) -> Vec<Vec<u8>> {
        vec![self.files[&self.name].clone()]
    }

    /// The honest edits and one or a few after them, with numbers at which counting ends.
    fn crafted(&self) -> Vec<Vec<u8>> {
        let records = frames::records(&self.files[&self.name]);
        let edit = VersionEdit::default;
        let group = |remaining| VersionEdit { atomic_group_remaining: Some(remaining), ..edit() };
        let (family, name) = (u32::MAX, Some("last".to_string()));
        let more: [&[VersionEdit]; 6] = [
            &[group(1), group(u32::MAX), group(0)],
            &[VersionEdit { column_family: family, add_column_family: name, ..edit() }],
            &[VersionEdit { max_column_family: Some(family), ..edit() }],
            &[VersionEdit { last_sequence: Some((1 << 56) - 2), ..edit() }],
            &[VersionEdit { next_file_number: Some(u64::MAX), ..edit() }],
            &[VersionEdit { log_number: Some(1 << 62), ..edit() }],
        ];
        let with = |more: &[VersionEdit]| {
            let more = more.iter().map(VersionEdit::encode);
            frames::log(&records.iter().cloned().chain(more).collect::<Vec<_>>())
        };
        more.map(with).into()
    }

    fn change(&self, bytes: Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
        frames::change(bytes, corpus, rng, change_record)
    }

    fn enter(&self, bytes: &[u8], _: &mut Rng) -> Outcome {
        let mut files = self.files.clone();
        files.insert(self.name.clone(), bytes.to_vec());
        exam(&files, |_| ())
    }
}

/// One version edit, without a database.
pub struct Edit;

impl Target for Edit {
    fn honest(&self) -> Vec<Vec<u8>> {
        let files = honest();
        frames::records(&files[&named(&files, "MANIFEST")])
    }

    fn change(&self, mut bytes: Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
        change_record(&mut bytes, corpus, rng);
        bytes
    }

    /// What was decoded is encoded to what decodes to the same.
    fn enter(&self, bytes: &[u8], _: &mut Rng) -> Outcome {
        let Ok(edit) = VersionEdit::decode(bytes) else { return Outcome::Refused };
        let encoded = edit.encode();
        let again = VersionEdit::decode(&encoded).expect("what was encoded is an edit");
        assert_eq!(again.encode(), encoded);
        // The text that `ldb manifest_dump` shows.
        assert!(!format!("{edit:?}").is_empty());
        Outcome::Taken
    }
}
