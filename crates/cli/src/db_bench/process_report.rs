//! The last line of `--report_cpu`: the resources of the whole process, including opening and
//! closing.
//!
//! Peak memory is the kernel's high-water mark of resident memory. Bytes written and read are those
//! of the process' read and write calls; io_uring's reads and writes are not included, so they are
//! complete only on threads. Bytes from the device are what the kernel fetched from block devices.
//!
//! Thread safety: pure functions and reads of /proc.

use pumice_port::{os, time};
use std::path::Path;

const MEGABYTE: f64 = 1e6;

/// `process      : cpu 1.500 s, peak memory 12.3 MB, wrote 4.5 MB, read 6.7 MB, 8.9 MB from the
/// device`.
pub fn line() -> String {
    let file = |path: &str| {
        let bytes = os::read_file(Path::new(path)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let cpu = time::process_cpu_micros() as f64 / 1e6;
    text(cpu, &file("/proc/self/status"), &file("/proc/self/io"))
}

fn text(cpu: f64, status: &str, io: &str) -> String {
    let megabytes = |text: &str, name: &str, unit: f64| field(text, name) as f64 * unit / MEGABYTE;
    format!(
        "{:<12} : cpu {cpu:.3} s, peak memory {:.1} MB, wrote {:.1} MB, read {:.1} MB, {:.1} MB \
         from the device",
        "process",
        megabytes(status, "VmHWM:", 1024.0),
        megabytes(io, "wchar:", 1.0),
        megabytes(io, "rchar:", 1.0),
        megabytes(io, "read_bytes:", 1.0),
    )
}

/// The number after a name; 0 if the kernel does not report it.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn the_line_has_the_kernels_numbers() {
        let status = "Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t  12000 kB\n";
        let io = "rchar: 2500000\nwchar: 1500000\nsyscr: 1\nread_bytes: 400000\nwrite_bytes: 0\n";
        assert_eq!(
            text(1.5, status, io),
            "process      : cpu 1.500 s, peak memory 12.3 MB, wrote 1.5 MB, read 2.5 MB, 0.4 MB \
             from the device"
        );
        assert!(text(0.0, "", "").contains("peak memory 0.0 MB"));
        // The kernel reports it.
        assert!(!line().contains("peak memory 0.0 MB"));
    }
}
