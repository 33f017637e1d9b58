//! A process that leaves io_uring out. Its own program, since that concerns the whole process.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use pumice_port::fiber::{IoMode, Runtime, leave_out_io_uring};

/// Rings that the process has while a loop runs.
fn rings(mode: IoMode) -> std::io::Result<usize> {
    let runtime = Runtime::builder().loops(1).io(mode).build()?;
    Ok(runtime.run("count", || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        targets.filter(|target| target.to_string_lossy().contains("io_uring")).count()
    }))
}

// Plain #[test]: it makes its own loops.
#[test]
fn loops_have_threads() {
    // Where the system refuses rings there are none before either.
    if let Ok(before) = rings(IoMode::Uring) {
        assert!(before > 0);
    }
    leave_out_io_uring();
    assert_eq!(rings(IoMode::Auto).unwrap(), 0);
}
