//! `ldb repair`, with RocksDB's answer, and `pumice repair DIR`, which prints what was saved and
//! what was not. Thread safety: plain functions.

use std::ffi::OsString;
use std::process::ExitCode;

use super::open::text as failure;
use super::{Failure, Invocation};
use crate::arguments::{self, Arguments, Flag, Known, Wrong};
use crate::nearest::hint;
use crate::output::Output;
use crate::progress::bytes_of;
use pumice::{RepairOutcome, RepairReport, repair_column_families};
use pumice_env::PosixFs;
use pumice_env::filename::lock_file;

/// Exit status of `pumice repair` when the database opens again and something is lost.
const INCOMPLETE: u8 = 2;

pub const USAGE: &str = "\
pumice repair: makes a database that opens of what is left of a damaged one

USAGE: pumice repair [FLAGS] DIR (or --db=DIR)

Prints what was saved and what was not. Nothing is deleted: what cannot be used moves to DIR/lost.
Exit status: 0 all is there, 1 it failed and nothing was changed or it can be run again, 2 the
database opens and something may be lost.

  --try_load_options=<bool>   with the options of the newest OPTIONS file (default: true)
  --ignore_unknown_options    skip options in it that are unknown here
";

const KNOWN: Known<'_> =
    Known { switches: &[&["try_load_options", "ignore_unknown_options"]], values: &[&["db"]] };

/// The flags, for completions.
pub fn flags() -> Vec<Flag> {
    KNOWN.flags()
}

/// The repair, with the options of the newest OPTIONS file and the flags' over them.
fn repair(it: &Invocation) -> Result<RepairReport, Failure> {
    let found = it.repair_options()?;
    it.progress.meter().expect(bytes_of(&it.db, &[".sst", ".log"]));
    let families = &found.families;
    repair_column_families(&found.db, &it.db, families, Some(&found.unknown)).map_err(failure)
}

/// `repair [--verbose]`
pub fn ldb_repair(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let fs = PosixFs::shared();
    if !fs.exists(&it.db).map_err(failure)? {
        // RocksDB's first step, whose error is reported.
        fs.lock(&lock_file(&it.db)).map_err(failure)?;
    }
    let report = repair(it)?;
    if it.arguments.flag("verbose") {
        eprint!("{report}");
    }
    let lost = if report.is_complete() { "" } else { " Some data may have been lost." };
    let (done, dir) = match report.outcome {
        RepairOutcome::Healthy => ("Nothing to repair in", it.db.display()),
        _ => ("Repaired", it.db.display()),
    };
    let (tables, bytes) = (report.tables, report.table_bytes);
    eprintln!(
        "[WARN] **** {done} rocksdb {dir}; recovered {tables} files; {bytes} bytes.{lost} ****"
    );
    out.text("OK\n");
    Ok(())
}

/// Runs `pumice repair` with `args`, the words after the subcommand.
pub fn run(args: &[OsString]) -> ExitCode {
    let arguments = Arguments::parse(args);
    if arguments.has("help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if let Err(wrong) = arguments.check(&KNOWN) {
        let near = match &wrong {
            Wrong::Unknown(_, name) => hint(name, KNOWN.names()),
            Wrong::NotBoolean(..) => String::new(),
        };
        eprintln!("pumice repair: {wrong}{near}\n\n{USAGE}");
        return ExitCode::FAILURE;
    }
    let dir = match (arguments.words.as_slice(), arguments.path("db")) {
        ([dir], None) => arguments::path(dir).to_path_buf(),
        ([], Some(dir)) => dir.to_path_buf(),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    match repair(&Invocation::of("repair", dir, arguments)) {
        Ok(report) => {
            print!("{report}");
            if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) }
        }
        Err(failure) => {
            eprintln!("Failed: {failure}");
            ExitCode::FAILURE
        }
    }
}
