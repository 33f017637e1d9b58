//! Lines, levels, rotation and failures of the info log.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::options::DbOptions;
use pumice_env::MemFs;
use pumice_env::mem::{Fault, FaultOp, FaultRule};

fn open(fs: &Arc<MemFs>, path: &str, options: &DbOptions) -> Arc<dyn Logger> {
    Arc::new(InfoLog::open(fs.clone(), Path::new(path), &options.info_log_settings()).unwrap())
}

fn read(fs: &MemFs, path: &str) -> String {
    String::from_utf8(fs.read_file(Path::new(path)).unwrap()).unwrap()
}

fn old_logs(fs: &MemFs) -> usize {
    let names = fs.list(Path::new("/db")).unwrap();
    names.iter().filter(|n| n.starts_with("LOG.old.")).count()
}

#[pumice_test_macros::test]
fn lines_have_the_layout_of_rocksdb() {
    let fs = Arc::new(MemFs::new(1));
    let log = open(&fs, "/db", &DbOptions::default());
    log.info(format_args!("hello {}", 7));
    log.warn(format_args!("careful"));
    log.debug(format_args!("hidden"));
    log.header(format_args!("RocksDB version: 10.10.1"));
    let text = read(&fs, "/db/LOG");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    let words: Vec<&str> = lines[0].splitn(4, ' ').collect();
    assert_eq!(words[0].len(), "2026/11/21-19:55:02.123456".len());
    assert_eq!(words[1], thread::current_id().to_string());
    assert!(words[2].starts_with("[info_log/tests.rs:") && words[2].ends_with(']'), "{}", words[2]);
    assert_eq!(words[3], "hello 7");
    assert!(lines[1].contains(" [WARN] [info_log/tests.rs:") && lines[1].ends_with("] careful"));
    assert!(lines[2].ends_with(" RocksDB version: 10.10.1") && !lines[2].contains('['));
}

#[pumice_test_macros::test]
fn levels_hide_lower_lines() {
    let fs = Arc::new(MemFs::new(1));
    let o = DbOptions { info_log_level: InfoLogLevel::Error, ..DbOptions::default() };
    let log = open(&fs, "/db", &o);
    log.warn(format_args!("hidden"));
    log.log(InfoLogLevel::Warn, format_args!("hidden too"));
    log.error(format_args!("shown"));
    log.header(format_args!("always"));
    let text = read(&fs, "/db/LOG");
    assert!(!text.contains("hidden") && text.contains("shown") && text.contains("always"));
}

#[pumice_test_macros::test]
fn open_puts_the_previous_log_aside() {
    let fs = Arc::new(MemFs::new(1));
    let o = DbOptions { keep_log_file_num: 3, ..DbOptions::default() };
    for round in 0..6 {
        let log = open(&fs, "/db", &o);
        log.info(format_args!("round {round}"));
        assert_eq!(old_logs(&fs), round.min(2), "round {round}");
    }
    let newest = fs.list(Path::new("/db")).unwrap();
    let newest = newest.iter().filter(|n| n.starts_with("LOG.old.")).max().unwrap();
    assert!(read(&fs, &format!("/db/{newest}")).contains("round 4"));
    assert!(read(&fs, "/db/LOG").contains("round 5"));
}

#[pumice_test_macros::test]
fn a_full_log_rolls() {
    let fs = Arc::new(MemFs::new(1));
    let o = DbOptions { max_log_file_size: 200, ..DbOptions::default() };
    let log = open(&fs, "/db", &o);
    for i in 0..20 {
        log.info(format_args!("line {i} {}", "x".repeat(40)));
    }
    assert!(old_logs(&fs) >= 5);
    assert!(read(&fs, "/db/LOG").len() <= 400);
    assert!(read(&fs, "/db/LOG").contains("line 19"));
}

#[pumice_test_macros::test]
fn a_foreign_directory_gets_a_flattened_name() {
    let fs = Arc::new(MemFs::new(1));
    let o = DbOptions { db_log_dir: "/logs".to_string(), ..DbOptions::default() };
    let log = open(&fs, "/data/my db", &o);
    log.info(format_args!("elsewhere"));
    assert!(read(&fs, "/logs/data_my_db_LOG").contains("elsewhere"));
}

#[pumice_test_macros::test]
fn short_paths_stay_whole() {
    assert_eq!(last_two("a/b/c/d.rs"), "c/d.rs");
    assert_eq!(last_two("c/d.rs"), "c/d.rs");
    assert_eq!(last_two("d.rs"), "d.rs");
}

#[pumice_test_macros::test]
fn null_logger_formats_nothing() {
    struct Bomb;
    impl fmt::Display for Bomb {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("formatted")
        }
    }
    let log: &dyn Logger = &NullLogger;
    log.error(format_args!("{Bomb}"));
}

#[pumice_test_macros::test]
fn a_broken_device_loses_lines_and_nothing_else() {
    let fs = Arc::new(MemFs::new(1));
    let log =
        InfoLog::open(fs.clone(), Path::new("/db"), &DbOptions::default().info_log_settings())
            .unwrap();
    fs.add_fault(FaultRule::always(FaultOp::Write, "*LOG*", Fault::Enospc));
    let sink: &dyn Logger = &log;
    sink.info(format_args!("lost"));
    assert_eq!(log.dropped_lines(), 1);
    fs.clear_faults();
    sink.info(format_args!("kept"));
    assert_eq!(log.dropped_lines(), 1);
    assert!(read(&fs, "/db/LOG").contains("kept"));
}

#[pumice_test_macros::test]
fn lines_of_threads_do_not_mix() {
    let fs = Arc::new(MemFs::new(1));
    let log = open(&fs, "/db", &DbOptions::default());
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let log = Arc::clone(&log);
            thread::spawn("writer", move || {
                for i in 0..200 {
                    log.header(format_args!("writer {writer} line {i} end"));
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let text = read(&fs, "/db/LOG");
    assert_eq!(text.lines().count(), 800);
    assert!(text.lines().all(|l| l.ends_with(" end") && l.matches("writer").count() == 1));
}
