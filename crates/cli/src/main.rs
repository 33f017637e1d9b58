//! The binary `pumice`: server, benchmark programs, inspection tools and stress test in one.
//!
//! Each subcommand is a module that takes the words after its name and gives an exit code. The
//! parsers, texts and exit codes of `db_bench`, `ldb` and `sst_dump` follow RocksDB's tools.
#![forbid(unsafe_code)]

mod arguments;
mod calendar;
mod db_bench;
mod folder;
mod ldb;
mod output;
mod plot;
mod report;
mod resp_bench;
mod serve;
mod sst_dump;
mod stress;
mod text;

use pumice_port::os::{HugePages, use_huge_pages};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
pumice: a storage engine that keeps its data in RocksDB's file format

USAGE: pumice COMMAND [FLAGS]

COMMANDS
  db_bench   run benchmarks on Pumice, or with --engine on a RocksDB library or other engines
  ldb        look into a database and change it
  repair     make a database that opens of what is left of a damaged one
  report     measure everything beside RocksDB and write a page about it
  resp_bench load a server that speaks Redis's protocol, in a closed or an open loop
  serve      serve Redis's protocol over the network; needs no flags
  sst_dump   look into table files
  stress     kill a working process again and again and check that nothing is lost

`pumice COMMAND --help` lists the flags of a command. `pumice --version` prints the version.
A link to this program that is called db_bench, ldb or sst_dump is that command.
";

/// The command that a program called `called` is by its name: scripts call RocksDB's tools.
fn rocksdbs_name(called: &OsStr) -> Option<OsString> {
    let name = Path::new(called).file_name()?;
    ["db_bench", "ldb", "sst_dump"].iter().any(|tool| name == *tool).then(|| name.to_owned())
}

fn main() -> ExitCode {
    // docs/decisions/0031. Other engines run as they would on their own.
    let mut words = std::env::args_os();
    let called = words.next().and_then(|called| rocksdbs_name(&called));
    let mut words = words.peekable();
    let is_child = words.peek().is_some_and(|word| word == db_bench::CHILD);
    use_huge_pages(if is_child { HugePages::All } else { HugePages::Advised });
    // The child of a program of another name has that name, too.
    let Some(command) = called.filter(|_| !is_child).or_else(|| words.next()) else {
        eprint!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let args: Vec<OsString> = words.collect();
    match &*command.to_string_lossy() {
        "db_bench" => db_bench::run(&args),
        db_bench::CHILD => db_bench::run_child(&args),
        "ldb" => ldb::run(&args),
        "repair" => ldb::run_repair(&args),
        "report" => report::run(&args),
        report::BASELINES_CHILD => report::run_baselines(&args),
        "resp_bench" => resp_bench::run(&args),
        "serve" => serve::run(&args),
        "sst_dump" => sst_dump::run(&args),
        "stress" => stress::run(&args),
        stress::CHILD => stress::run_child(&args),
        "--version" | "-V" | "version" => {
            println!("pumice {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        "--help" | "-h" | "help" => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("pumice: there is no command '{other}'\n");
            eprint!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}
