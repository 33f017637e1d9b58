//! CURRENT, and the names in the directory: one line each, the first is the contents of CURRENT.

use pumice_base::random::Rng;

use crate::database::{Files, exam, honest};
use crate::mutate::{self, number};
use crate::{Outcome, Target};

pub struct Names {
    files: Files,
}

impl Names {
    pub fn new() -> Self {
        Names { files: honest() }
    }
}

fn name(rng: &mut Rng) -> String {
    let number = number(rng);
    match rng.uniform(9) {
        0 | 1 => format!("{number:06}.log"),
        2 => format!("{number:06}.sst"),
        3 => format!("MANIFEST-{number:06}"),
        4 => format!("OPTIONS-{number:06}"),
        5 => format!("{number:06}.dbtmp"),
        6 => format!("{number}.blob"),
        7 => format!("{number}{}.log", rng.uniform(100)),
        _ => format!("{number:09}.ldb"),
    }
}

impl Target for Names {
    fn honest(&self) -> Vec<Vec<u8>> {
        vec![self.files["CURRENT"].clone()]
    }

    fn crafted(&self) -> Vec<Vec<u8>> {
        let current = String::from_utf8(self.files["CURRENT"].clone()).unwrap();
        let largest = u64::MAX;
        let more =
            [format!("{largest}.log"), format!("{largest}.sst"), format!("{}.log", 1u64 << 62)];
        let beside = more.map(|name| format!("{current}{name}\n").into_bytes());
        beside.into_iter().chain([format!("MANIFEST-{largest}\n").into_bytes()]).collect()
    }

    fn change(&self, mut bytes: Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
        match rng.uniform(4) {
            0 => mutate::some(&mut bytes, corpus, rng),
            1 => bytes = format!("MANIFEST-{:06}\n", number(rng)).into_bytes(),
            _ => {}
        }
        for _ in 0..rng.uniform(4) {
            bytes.extend_from_slice(name(rng).as_bytes());
            bytes.push(b'\n');
        }
        bytes
    }

    fn enter(&self, bytes: &[u8], _: &mut Rng) -> Outcome {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let (current, more) = bytes.split_at(end);
        let mut files = self.files.clone();
        files.insert("CURRENT".to_string(), current.to_vec());
        for name in String::from_utf8_lossy(more).lines() {
            // Only names that a directory can hold, and none that is there.
            if !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".." {
                files.entry(name.to_string()).or_default();
            }
        }
        exam(&files, |_| ())
    }
}
