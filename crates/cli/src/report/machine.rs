//! The machine that the report runs on, and the peer that it is compared with.
//!
//! Values that cannot be determined are left empty. For the peer it reports what would make it
//! slower than necessary: RocksDB's LOG shows whether CRC32C is computed by the processor, and a
//! library that was built with assertions has their texts in it.
//!
//! Thread safety: reads of /proc and of files; [`Peer::probe`] runs a child process.

use pumice_base::hash::hash64;
use pumice_port::{os, thread};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Texts of assertions in RocksDB's sources.
const ASSERTED: [&str; 2] = ["num_running_compactions_ > 0", "refs_ >= 1"];

/// Facts for the plan and the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Processors.
    pub cpus: usize,
    /// The name of the processors.
    pub model: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes free where databases in memory lie.
    pub memory_free: u64,
    /// Bytes free where databases on disk lie.
    pub disk_free: u64,
    /// The kernel.
    pub kernel: String,
    /// The file system on disk and its device.
    pub disk: String,
    /// The library of RocksDB.
    pub peer: Option<Peer>,
    /// redis-server, if it is installed: its version line.
    pub redis: Option<String>,
    /// fjall and redb are in this program.
    pub other_engines: bool,
    /// This program: its version and what identifies its bytes.
    pub program: String,
}

/// A library of RocksDB.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Peer {
    /// The library's version.
    pub version: String,
    /// Where it is; private.
    #[serde(skip)]
    pub path: PathBuf,
    /// What identifies its bytes.
    pub build: String,
    /// What its LOG says of CRC32C by the processor.
    pub crc32c: String,
    /// The library was built with assertions.
    pub asserts: bool,
}

impl Machine {
    /// Looks around; databases lie in `memory` and `disk`.
    pub fn look(memory: &Path, disk: &Path) -> Machine {
        let cpuinfo = text(Path::new("/proc/cpuinfo"));
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let model = model.map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_string());
        let program = std::env::current_exe().map(|path| build(&path)).unwrap_or_default();
        Machine {
            cpus: thread::available_parallelism(),
            model: model.unwrap_or_default(),
            memory_bytes: os::total_memory_bytes(),
            memory_free: os::free_space(memory).unwrap_or(0),
            disk_free: os::free_space(disk).unwrap_or(0),
            kernel: text(Path::new("/proc/sys/kernel/osrelease")).trim().to_string(),
            disk: mount_of(disk, &text(Path::new("/proc/self/mounts"))),
            peer: None,
            redis: redis(),
            other_engines: crate::db_bench::OTHER_ENGINES_ARE_BUILT,
            program: format!("pumice {}, {program}", env!("CARGO_PKG_VERSION")),
        }
    }
}

impl Peer {
    /// Looks at the library by opening a database with it in `scratch`.
    ///
    /// # Errors
    /// It cannot be read or used.
    pub fn probe(path: &Path, scratch: &Path, program: &Path) -> Result<Peer, String> {
        let bytes = os::read_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let db = scratch.join("probe");
        let mut command = Command::new(program);
        os::end_with_parent(&mut command);
        let output = command
            .arg(crate::db_bench::CHILD)
            .arg(format!("--engine={}", path.display()))
            .arg(format!("--db={}", db.display()))
            .args(["--benchmarks=fillseq", "--num=1", "--progress_reports=0"])
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
        }
        let log = text(&db.join("LOG"));
        let after = |mark: &str| {
            let line = log.lines().find_map(|line| Some(line.split_once(mark)?.1.trim()));
            line.unwrap_or("unknown").to_string()
        };
        Ok(Peer {
            path: path.to_path_buf(),
            build: build_of(&bytes),
            version: after("RocksDB version:"),
            crc32c: after("Fast CRC32 supported:"),
            asserts: ASSERTED.iter().any(|text| contains(&bytes, text.as_bytes())),
        })
    }

    /// What makes it slower than it has to be; sentences for the page.
    pub fn handicaps(&self) -> Vec<String> {
        let mut handicaps = Vec::new();
        if self.crc32c.starts_with("Not supported") {
            handicaps.push(
                "This RocksDB computes CRC32C in software, which flatters Pumice, most in rows \
                 that write the WAL."
                    .to_string(),
            );
        }
        if self.asserts {
            handicaps.push(
                "This RocksDB was built with assertions: its speed cannot be compared.".to_string(),
            );
        }
        handicaps
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&os::read_file(path).unwrap_or_default()).into_owned()
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    // Texts in a program end with a zero.
    bytes.windows(text.len()).any(|window| window == text)
}

fn build(path: &Path) -> String {
    os::read_file(path).map(|bytes| build_of(&bytes)).unwrap_or_default()
}

fn build_of(bytes: &[u8]) -> String {
    format!("build {:016x}", hash64(bytes))
}

fn redis() -> Option<String> {
    let mut command = Command::new("redis-server");
    os::end_with_parent(&mut command);
    let output = command.arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    output.status.success().then(|| version.to_string())
}

/// File system and device of the mount that has `path`: the longest that begins it.
fn mount_of(path: &Path, mounts: &str) -> String {
    let mut best = (0, String::new());
    for line in mounts.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, folder, kind, ..] = words.as_slice() else { continue };
        if path.starts_with(folder) && folder.len() >= best.0 {
            best = (folder.len(), format!("{kind} on {device}"));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn the_mount_with_the_longest_name_has_the_file() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n/dev/b /data xfs rw 0 0\n";
        assert_eq!(mount_of(Path::new("/data/x"), mounts), "xfs on /dev/b");
        assert_eq!(mount_of(Path::new("/database"), mounts), "ext4 on /dev/vda");
        assert_eq!(mount_of(Path::new("/dev/shm/a"), mounts), "tmpfs on tmpfs");
    }

    // Plain #[test]: see above.
    #[test]
    fn a_handicapped_peer_is_called_so() {
        let peer = Peer { crc32c: "Not supported on x86".into(), ..Peer::default() };
        assert!(peer.handicaps()[0].contains("CRC32C in software"));
        let peer = Peer { crc32c: "Supported on x86".into(), asserts: true, ..Peer::default() };
        assert_eq!(peer.handicaps().len(), 1);
        assert!(contains(b"abc\0refs_ >= 1\0", ASSERTED[1].as_bytes()));
    }
}
