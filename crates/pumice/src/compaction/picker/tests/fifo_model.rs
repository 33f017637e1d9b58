//! FIFO picks on random files, compared with a model that states the rules in another way: which
//! files go by age and by size when blob files count, and which neighbours are merged by tiers.

use std::sync::Arc;

use pumice_base::key::{ValueType, internal_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKeyComparator};
use pumice_manifest::edit::BlobFileAddition;
use pumice_manifest::{
    FileMetaData, LevelTargets, LeveledOptions, Version, VersionBuilder, VersionEdit,
};
use pumice_testkit::seed;

use super::super::{CompactionReason, FifoMerges, FifoRules, PickContext, RunningCompactions};
use crate::compaction::plan::shape;
use crate::options::ColumnFamilyOptions;

const STEPS: u64 = 200;
/// What a blob file has besides its blobs.
const BLOB_FIXED: u64 = 62;

#[derive(Clone, Copy, Debug)]
struct File {
    number: u64,
    bytes: u64,
    /// Bytes of its blob files.
    blobs: u64,
    oldest_blob: u64,
    created: u64,
    /// How often its oldest bytes were merged.
    merges: usize,
}

/// What has to be done next: the reason, and which of the files, oldest first.
type Step = (CompactionReason, std::ops::Range<usize>);

struct Life {
    seed: u64,
    rng: Rng,
    options: LeveledOptions,
    rules: FifoRules,
    version: Arc<Version>,
    /// Oldest first.
    files: Vec<File>,
    next: u64,
    now: u64,
    picks: [usize; 3],
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let max_compaction_bytes = [0, 0, 7_000, 400_000][rng.uniform(4) as usize];
        let icmp = InternalKeyComparator::new(Comparator::Bytewise);
        let rules = FifoRules {
            max_bytes: 300_000 << rng.uniform(5),
            counts_blobs: true,
            ttl_seconds: [0, 0, 300, 2000][rng.uniform(4) as usize],
            merges: if rng.one_in(5) { FifoMerges::Never } else { FifoMerges::Tiers },
            merge_trigger: 1 + rng.uniform(8) as usize,
            temperatures: Vec::new(),
        };
        Life {
            seed,
            rng,
            options: LeveledOptions {
                max_compaction_bytes,
                ..shape(&ColumnFamilyOptions::default())
            },
            rules,
            version: Version::empty(icmp, 3),
            files: Vec::new(),
            next: 1,
            now: 1_000_000,
            picks: [0; 3],
        }
    }

    fn total(&self) -> u64 {
        self.files.iter().map(|f| f.bytes + f.blobs).sum()
    }

    fn tables(files: &[File]) -> u64 {
        files.iter().map(|f| f.bytes).sum()
    }

    fn step(&self) -> Option<Step> {
        self.old().or_else(|| self.surplus()).or_else(|| self.merge())
    }

    fn old(&self) -> Option<Step> {
        let ttl = self.rules.ttl_seconds;
        let count = self.files.iter().take_while(|f| f.created + ttl < self.now).count();
        if ttl == 0 || count == 0 {
            return None;
        }
        let (all, left) = (Self::tables(&self.files), Self::tables(&self.files[count..]));
        // The blob files are left in the same proportion.
        let left = u128::from(left) * u128::from(self.total()) / u128::from(all);
        (left <= u128::from(self.rules.max_bytes)).then_some((CompactionReason::FifoTtl, 0..count))
    }

    fn surplus(&self) -> Option<Step> {
        let over = self.total().checked_sub(self.rules.max_bytes).filter(|over| *over > 0)?;
        let share = (self.total() / self.files.len() as u64).max(1);
        let count = over.div_ceil(share) as usize;
        Some((CompactionReason::FifoMaxSize, 0..count.min(self.files.len())))
    }

    /// The limit of each tier, the smallest first.
    fn tiers(&self) -> Vec<u64> {
        let trigger = self.rules.merge_trigger as u64;
        let last = match self.options.max_compaction_bytes {
            0 => {
                let of_tables = u128::from(self.rules.max_bytes)
                    * u128::from(Self::tables(&self.files))
                    / u128::from(self.total());
                of_tables as u64 / trigger
            }
            chosen => chosen,
        };
        let tiers = (0..).map(|n| last / trigger.pow(n)).take_while(|tier| *tier >= 10 * 1024);
        let mut tiers: Vec<u64> = tiers.collect();
        tiers.reverse();
        if tiers.is_empty() { vec![last] } else { tiers }
    }

    fn merge(&self) -> Option<Step> {
        let trigger = self.rules.merge_trigger;
        if self.rules.merges == FifoMerges::Never || trigger < 2 || self.files.len() < trigger {
            return None;
        }
        self.tiers().into_iter().find_map(|tier| {
            // Only the beginning of each stretch of small files can be a merge.
            let stretches = self.files.chunk_by(|a, b| (a.bytes < tier) == (b.bytes < tier));
            let mut from = 0;
            for stretch in stretches {
                if stretch[0].bytes < tier && Self::tables(stretch) >= tier {
                    let enough = (1..).find(|n| Self::tables(&stretch[..*n]) >= tier).unwrap();
                    let fits = |n: &usize| Self::tables(&stretch[..*n]) <= tier * 2;
                    let count = (enough + 1..=stretch.len()).take_while(fits).last();
                    let count = count.unwrap_or(enough);
                    return Some((CompactionReason::FifoReduceNumFiles, from..from + count));
                }
                from += stretch.len();
            }
            None
        })
    }

    fn add(&mut self, edit: &mut VersionEdit, file: File) {
        let key = |n: u64| internal_key(&n.to_be_bytes(), file.number, ValueType::Value);
        edit.add_file(
            0,
            Arc::new(FileMetaData {
                number: file.number,
                file_size: file.bytes,
                smallest: key(0),
                largest: key(9),
                smallest_seq: file.number,
                largest_seq: file.number,
                // Outputs stand where their oldest input stood.
                epoch_number: file.oldest_blob,
                oldest_blob_file_number: file.oldest_blob,
                file_creation_time: file.created,
                ..FileMetaData::default()
            }),
        );
    }

    fn install(&mut self, edit: &VersionEdit) {
        let mut builder = VersionBuilder::new(self.version.clone());
        builder.apply(edit).unwrap();
        self.version = builder.build().unwrap();
    }

    fn flush(&mut self) {
        let bytes = 200 + self.rng.skewed(15);
        let blobs = BLOB_FIXED + self.rng.skewed(17);
        let number = self.next;
        self.next += 2;
        let mut edit = VersionEdit::default();
        edit.blob_additions.push(BlobFileAddition {
            number: number + 1,
            blob_count: 10,
            blob_bytes: blobs - BLOB_FIXED,
            ..BlobFileAddition::default()
        });
        let file =
            File { number, bytes, blobs, oldest_blob: number + 1, created: self.now, merges: 0 };
        self.add(&mut edit, file);
        self.files.push(file);
        self.install(&edit);
    }

    /// Does what the picker says, which is what the model says. False if that is nothing.
    fn compact(&mut self) -> bool {
        let targets = LevelTargets::compute(&self.version, &self.options);
        let running = RunningCompactions::default();
        let ctx = PickContext {
            version: &self.version,
            targets: &targets,
            options: &self.options,
            running: &running,
            young: None,
        };
        let pick = self.rules.pick(&ctx, self.now);
        let picked = pick.as_ref().map(|pick| {
            assert_eq!(pick.inputs.len(), 1);
            let mut numbers: Vec<u64> = pick.inputs[0].files.iter().map(|f| f.number).collect();
            numbers.reverse();
            (pick.reason, numbers)
        });
        let step = self.step();
        let files = |range: std::ops::Range<usize>| self.files[range].iter().map(|f| f.number);
        let expected = step.clone().map(|(reason, range)| (reason, files(range).collect()));
        let hint = seed::replay_hint("fifo_picks_what_the_model_says", self.seed);
        assert_eq!(picked, expected, "{:?}\n{:?}\n{hint}", self.rules, self.files);
        let Some((reason, range)) = step else { return false };
        let score = self.rules.scores(&self.version, &running, self.now).score(0);
        assert!(score >= 1.0, "{reason:?} {score}\n{hint}");
        let taken: Vec<File> = self.files.drain(range.clone()).collect();
        let mut edit = VersionEdit::default();
        taken.iter().for_each(|file| edit.delete_file(0, file.number));
        let at = match reason {
            CompactionReason::FifoTtl => 0,
            CompactionReason::FifoMaxSize => 1,
            _ => 2,
        };
        self.picks[at] += 1;
        if reason == CompactionReason::FifoReduceNumFiles {
            let merged = File {
                number: self.next,
                bytes: Self::tables(&taken),
                blobs: taken.iter().map(|f| f.blobs).sum(),
                oldest_blob: taken[0].oldest_blob,
                created: self.now,
                merges: taken.iter().map(|f| f.merges).max().unwrap() + 1,
            };
            self.next += 1;
            self.add(&mut edit, merged);
            self.files.insert(range.start, merged);
            if self.options.max_compaction_bytes > 0 {
                assert!(merged.merges <= self.tiers().len(), "{merged:?}\n{hint}");
            }
        }
        self.install(&edit);
        true
    }

    fn check(&self) {
        let mut found: Vec<u64> = self.version.files(0).iter().map(|f| f.number).collect();
        found.reverse();
        let (seed, files) = (self.seed, self.files.iter().map(|f| f.number));
        assert_eq!(found, files.collect::<Vec<_>>(), "seed {seed}");
        let blobs = self.version.blob_files().values().map(|blob| blob.shared.file_size());
        assert_eq!(blobs.sum::<u64>(), self.files.iter().map(|f| f.blobs).sum::<u64>());
        assert!(self.total() <= self.rules.max_bytes, "seed {seed}");
    }
}

#[pumice_test_macros::test]
fn fifo_picks_what_the_model_says() {
    let mut picks = [0; 3];
    for seed in seed::range(60) {
        let mut life = Life::new(seed);
        for _ in 0..STEPS {
            life.now += life.rng.uniform(20);
            life.flush();
            while life.compact() {}
            life.check();
        }
        (0..3).for_each(|at| picks[at] += life.picks[at]);
    }
    eprintln!("{} picks by age, {} by size, {} merges", picks[0], picks[1], picks[2]);
    assert!(seed::wanted().is_some() || picks.iter().all(|n| *n > 0), "{picks:?}");
}
