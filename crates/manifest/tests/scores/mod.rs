//! Level targets, scores, pending bytes and file marks by text.

use std::fmt::Write as _;

use pumice_manifest::{FileMarks, LevelScores, LevelTargets, MarkRules, Version};

use pumice_manifest::testing::{self as text, Command};

fn show_scores(version: &Version, command: &Command) -> String {
    let options = text::leveled_options(command);
    let targets = LevelTargets::compute(version, &options);
    let busy = version.all_files().filter(|(_, f)| f.is_being_compacted());
    let scores = LevelScores::compute(version, &targets, &options, busy);
    let mut out = format!("base L{}", targets.base_level);
    if let Some(level) = targets.lowest_unnecessary_level {
        write!(out, ", unnecessary up to L{level}").unwrap();
    }
    out.push_str("\ntargets");
    for bytes in &targets.max_bytes {
        match *bytes {
            u64::MAX => out.push_str(" max"),
            bytes => write!(out, " {bytes}").unwrap(),
        }
    }
    out.push_str("\nscores");
    for (score, level) in scores.by_score.iter().filter(|(score, _)| *score > 0.0) {
        write!(out, " L{level}={score:.3}").unwrap();
    }
    write!(out, "\npending {}", scores.estimated_compaction_needed_bytes).unwrap();
    out
}

fn show_marks(version: &Version, command: &Command) -> String {
    let argument = |name| command.number(name).unwrap_or(0);
    let rules = MarkRules {
        reclaim_seconds: None,
        blob_garbage: None,
        reads_per_byte: 0.0,
        oldest_snapshot: argument("snapshot"),
        now: argument("now"),
        bottommost_delay: argument("delay"),
        ttl: argument("ttl"),
        periodic: argument("periodic"),
        offpeak: pumice_manifest::Offpeak::new(argument("offpeak_start"), argument("offpeak_end")),
        preclude: 0,
        keeps_times: command.args.contains_key("keeps_times"),
        allow_ingest_behind: command.args.contains_key("ingest_behind"),
    };
    let marks = FileMarks::compute(version, &rules);
    let list = |files: &[(usize, std::sync::Arc<pumice_manifest::FileMetaData>)]| {
        files.iter().fold(String::new(), |mut out, (level, file)| {
            write!(out, " L{level}:{}", file.number).unwrap();
            out
        })
    };
    let mut out = format!("marked{}\nbottommost{}", list(&marks.marked), list(&marks.bottommost));
    if marks.bottommost_threshold != u64::MAX {
        write!(out, " (more at {})", marks.bottommost_threshold).unwrap();
    }
    write!(out, "\nexpired{}\nperiodic{}", list(&marks.expired), list(&marks.periodic)).unwrap();
    if marks.next_old != u64::MAX {
        write!(out, "\nnext at {}", marks.next_old).unwrap();
    }
    out
}

#[test]
fn scores_text() {
    let mut version = Version::empty(text::comparator(None), 7);
    crate::run_file("tests/testdata/scores.txt", |command| match command.name.as_str() {
        "define" => {
            version = text::define(command).unwrap();
            let sizes = version.levels().iter().filter(|l| !l.is_empty());
            let sizes = sizes.fold(String::new(), |out, l| {
                format!("{out}L{}: {} files {} bytes\n", l.number(), l.len(), l.total_bytes())
            });
            if sizes.is_empty() { "empty".into() } else { sizes }
        }
        "scores" => show_scores(&version, command),
        "marks" => show_marks(&version, command),
        other => panic!("unknown command {other}"),
    });
}
