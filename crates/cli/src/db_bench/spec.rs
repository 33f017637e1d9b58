//! The benchmarks by name: one row each, and the `[X3-W1]` suffix.

use super::work::Work;

/// What running a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Threads do `Work`.
    Threads(Work),
    /// Flush the memtable.
    Flush,
    /// Wait for background work.
    WaitForCompaction,
    /// Print a property.
    Property(&'static str),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The benchmark's name.
    pub name: &'static str,
    /// What it does.
    pub action: Action,
    /// It begins with an empty database.
    pub fresh: bool,
    /// It syncs every write.
    pub sync: bool,
    /// Keys are chosen from `num` divided by this.
    pub divide_num: u64,
    /// Value size, where it is not the flag's.
    pub value_size: Option<usize>,
    /// Bytes added to the key, so that no key is found.
    pub longer_key: usize,
    /// A thread more, for the background writer.
    pub writer: bool,
    /// One thread whatever the flag says.
    pub single: bool,
}

const fn spec(name: &'static str, action: Action) -> Spec {
    Spec {
        name,
        action,
        fresh: false,
        sync: false,
        divide_num: 1,
        value_size: None,
        longer_key: 0,
        writer: false,
        single: false,
    }
}

const fn threads(name: &'static str, work: Work) -> Spec {
    spec(name, Action::Threads(work))
}

const fn fill(name: &'static str, work: Work) -> Spec {
    Spec { fresh: true, ..threads(name, work) }
}

/// Every benchmark that is built.
pub const SPECS: &[Spec] = &[
    fill("fillseq", Work::FillSequential),
    fill("fillrandom", Work::FillRandom),
    Spec { single: true, ..fill("filluniquerandom", Work::FillUnique) },
    Spec { sync: true, divide_num: 1000, ..fill("fillsync", Work::FillRandom) },
    Spec { divide_num: 1000, value_size: Some(100_000), ..fill("fill100K", Work::FillRandom) },
    threads("overwrite", Work::FillRandom),
    threads("updaterandom", Work::Update),
    threads("readseq", Work::ReadForward),
    threads("readreverse", Work::ReadBackward),
    threads("readrandom", Work::ReadRandom),
    Spec { longer_key: 1, ..threads("readmissing", Work::ReadRandom) },
    threads("multireadrandom", Work::MultiRead),
    threads("seekrandom", Work::Seek),
    Spec { writer: true, ..threads("readwhilewriting", Work::ReadWhileWriting) },
    Spec { writer: true, ..threads("readwhilemerging", Work::ReadWhileMerging) },
    threads("deleteseq", Work::DeleteSequential),
    threads("deleterandom", Work::DeleteRandom),
    Spec { single: true, ..threads("compact", Work::Compact) },
    Spec { single: true, ..threads("verifychecksum", Work::VerifyChecksum) },
    spec("flush", Action::Flush),
    spec("waitforcompaction", Action::WaitForCompaction),
    spec("stats", Action::Property("rocksdb.stats")),
    spec("levelstats", Action::Property("rocksdb.levelstats")),
    spec("sstables", Action::Property("rocksdb.sstables")),
];

/// One entry of `--benchmarks`.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What to run.
    pub spec: Spec,
    /// How often it counts.
    pub repeats: u32,
    /// How often it runs before that.
    pub warmups: u32,
}

/// Reads `name` or `name[X3-W1]`.
///
/// # Errors
/// The benchmark is not known, or the suffix is wrong.
pub fn parse(text: &str) -> Result<Entry, String> {
    let (name, suffix) = match text.split_once('[') {
        Some((name, rest)) => match rest.strip_suffix(']') {
            Some(suffix) => (name, suffix),
            None => return Err(format!("benchmark '{text}' lacks its closing bracket")),
        },
        None => (text, ""),
    };
    let Some(spec) = SPECS.iter().find(|spec| spec.name == name) else {
        return Err(format!("unknown benchmark '{name}'"));
    };
    let (mut repeats, mut warmups) = (1, 0);
    for part in suffix.split('-').filter(|part| !part.is_empty()) {
        let (kind, digits) = part.split_at_checked(1).unwrap_or((part, ""));
        match (kind, digits.parse()) {
            ("X", Ok(n)) if n > 0 => repeats = n,
            ("W", Ok(n)) => warmups = n,
            _ => {
                return Err(format!("benchmark '{text}': '{part}' is neither X<runs> nor W<runs>"));
            }
        }
    }
    if matches!(spec.action, Action::Threads(_)) || suffix.is_empty() {
        Ok(Entry { spec: *spec, repeats, warmups })
    } else {
        Err(format!("benchmark '{name}' cannot be repeated"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_and_suffixes() {
        let entry = parse("fillrandom[X3-W1]").unwrap();
        assert_eq!((entry.spec.name, entry.repeats, entry.warmups), ("fillrandom", 3, 1));
        assert_eq!(parse("readseq[X2]").unwrap().repeats, 2);
        assert_eq!(parse("nosuch").unwrap_err(), "unknown benchmark 'nosuch'");
        for wrong in ["readseq[X0]", "readseq[3]", "readseq[X3", "readseq[X]", "flush[X2]"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
