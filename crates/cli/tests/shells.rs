//! What shells and terminals get: completions that bash runs, man pages, help of ldb's commands,
//! suggestions, the progress line.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn pumice(dir: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.current_dir(dir).args(words.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What bash offers after this line.
fn completed(dir: &Path, line: &str) -> Vec<String> {
    let script = format!(
        "source <('{}' completions bash) || exit 1\n\
         COMP_LINE='{line}' COMP_POINT=${{#COMP_LINE}}\n\
         read -ra COMP_WORDS <<< \"$COMP_LINE\"\n\
         if [[ $COMP_LINE == *' ' ]]; then COMP_WORDS+=(''); fi\n\
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _pumice\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        env!("CARGO_BIN_EXE_pumice")
    );
    let output = Command::new("bash").current_dir(dir).args(["--norc", "-c", &script]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    text(&output.stdout).split_whitespace().map(str::to_string).collect()
}

// Plain #[test]: other processes do the work.
#[test]
fn bash_completes_commands_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(completed(dir, "pumice ser"), ["serve"]);
    assert!(completed(dir, "pumice ").contains(&"db_bench".to_string()));
    assert_eq!(completed(dir, "pumice ldb --db=x comp"), ["compact"]);
    assert_eq!(completed(dir, "pumice ldb --db=x dump --count_o"), ["--count_only"]);
    assert_eq!(completed(dir, "pumice ldb --db=x get --max_k"), Vec::<String>::new());
    assert_eq!(completed(dir, "pumice serve --appendf"), ["--appendfsync="]);
    assert_eq!(completed(dir, "pumice db_bench --use_existing_k"), ["--use_existing_keys"]);
}

// Plain #[test]: other processes do the work.
#[test]
fn unknown_words_get_a_suggestion() {
    let dir = tempfile::tempdir().unwrap();
    let said = |words: &str| {
        let output = pumice(dir.path(), words);
        assert!(!output.status.success(), "{words}");
        text(&output.stderr)
    };
    for (words, near) in [
        ("sevre", "there is no command 'sevre'; did you mean 'serve'?\n"),
        ("ldb --db=x compcat", "There is no command 'compcat'; did you mean 'compact'?\n"),
        ("ldb --db=x get --colum_family=y k", "Did you mean --column_family?\n"),
        ("db_bench --benchmark=fillseq", "Did you mean --benchmarks?\n"),
        ("sst_dump --fil=x", "'--fil'; did you mean 'file'?\n"),
        ("serve --prot 1", "unknown directive 'prot'; did you mean 'port'?\n"),
        ("stress --kill=1", "no flag --kill; did you mean 'kills'?\n"),
        ("resp_bench --sed 1", "no flag '--sed'; did you mean '--seed'?\n"),
        ("repair --try_load_option x", "did you mean 'try_load_options'?\n"),
        ("completions bsh", "there is no shell 'bsh'; did you mean 'bash'?\n"),
    ] {
        assert!(said(words).contains(near), "{words}: {}", said(words));
    }
    assert!(!said("ldb --db=x flubber").contains("did you mean"));
}

// Plain #[test]: other processes do the work.
#[test]
fn every_command_of_ldb_has_a_help_text_and_the_binary_man_pages() {
    let dir = tempfile::tempdir().unwrap();
    let help = pumice(dir.path(), "ldb dump --help");
    assert!(help.status.success());
    let help = text(&help.stdout);
    assert!(help.starts_with("pumice ldb --db=<path> dump [--from]"), "{help}");
    assert!(help.contains("--count_delim=<value>") && !help.contains("compact"), "{help}");
    assert!(text(&pumice(dir.path(), "serve --version").stdout).starts_with("pumice serve 0."));
    assert!(pumice(dir.path(), "man pages").status.success());
    let page = std::fs::read_to_string(dir.path().join("pages/pumice-ldb.1")).unwrap();
    assert!(page.contains("\\-\\-count_delim"), "{page}");
    assert!(dir.path().join("pages/pumice.1").exists());
}

// Plain #[test]: other processes do the work.
#[test]
fn db_bench_says_where_its_database_stays() {
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
        command.env("TEST_TMPDIR", dir.path()).args(["db_bench", "--num=10"]).args(words);
        text(&command.output().unwrap().stderr)
    };
    let place = dir.path().join("dbbench");
    let line = format!("db_bench: the database stays in {}", place.display());
    assert!(run(&["--benchmarks=fillseq"]).contains(&line));
    let other = format!("--db={}", dir.path().join("x").display());
    assert!(!run(&["--benchmarks=fillseq", &other]).contains("stays in"));
}

/// A terminal of `script` shows the line of a `load` whose input goes on until the line is there.
// Plain #[test]: other processes do the work.
#[test]
fn long_commands_show_their_progress_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("lines");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let load = format!(
        "'{}' ldb --db='{}' load --create_if_missing < '{}'",
        env!("CARGO_BIN_EXE_pumice"),
        dir.path().join("db").display(),
        fifo.display()
    );
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &load, "/dev/null"]);
    script.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut script = script.spawn().unwrap();
    let mut lines = std::fs::File::create(&fifo).unwrap();
    lines.write_all(b"key ==> value\n").unwrap();
    let (mut screen, mut shown) = (script.stdout.take().unwrap(), Vec::new());
    let mut bytes = [0; 4096];
    while !text(&shown).contains("load: 14 B, ") {
        let len = screen.read(&mut bytes).unwrap();
        assert!(len > 0, "it ended: {}", text(&shown));
        shown.extend_from_slice(&bytes[..len]);
    }
    drop(lines);
    screen.read_to_end(&mut shown).unwrap();
    assert!(script.wait().unwrap().success(), "{}", text(&shown));
    // The line is gone.
    assert!(text(&shown).trim_end_matches(['\r', '\n']).ends_with("\r\u{1b}[K"), "{shown:?}");
    // Where there is no terminal there is none.
    let db = dir.path().join("db");
    let scan = pumice(dir.path(), &format!("ldb --db={} scan", db.display()));
    assert_eq!((text(&scan.stdout).as_str(), text(&scan.stderr).as_str()), ("key : value\n", ""));
}
