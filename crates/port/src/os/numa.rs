//! Nodes of memory (NUMA), and threads that are bound to one.
//!
//! A node is memory that some processors reach faster than others do. Linux names them in
//! `/sys/devices/system/node`; most machines have one. What a bound thread starts is bound too.
//!
//! Thread safety: any thread. In a simulation there are no nodes.
//!
//! Invariants cited by unsafe blocks:
//! 1. Pointers given to libc point to live slices with their true lengths, or are null where the
//!    call allows it.

use super::read_file;
use crate::sim;
use libc::{c_long, c_ulong};
use std::io;
use std::path::Path;

/// A node of memory, with its processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNode {
    number: usize,
    cpus: Vec<usize>,
}

impl MemoryNode {
    /// From now on the calling thread runs on the node's processors and gets memory of the node
    /// only.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind_thread(&self) -> io::Result<()> {
        let cpus = mask(&self.cpus);
        // SAFETY: 1; the kernel takes a mask of any length, in words.
        done(c_long::from(unsafe {
            libc::sched_setaffinity(0, size_of_val(&*cpus), cpus.as_ptr().cast())
        }))?;
        let nodes = mask(&[self.number]);
        // The kernel looks at one bit less than it is told.
        let bits = nodes.len() * WORD_BITS + 1;
        // SAFETY: 1.
        done(unsafe {
            libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, nodes.as_ptr(), bits)
        })
    }
}

/// The nodes whose memory and processors this process may use, by number. None: the kernel has no
/// such thing, or does not let this process choose.
pub fn memory_nodes() -> Option<Vec<MemoryNode>> {
    if sim::is_running() {
        return None;
    }
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: 1; asks for nothing.
    done(unsafe { libc::syscall(libc::SYS_get_mempolicy, none, none, 0, none, 0) }).ok()?;
    let status = read_file(Path::new("/proc/self/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let allowed = |what| numbers(status.lines().find_map(|line| line.strip_prefix(what))?);
    let usable = allowed("Cpus_allowed_list:")?;
    let nodes = allowed("Mems_allowed_list:")?.into_iter().filter_map(|number| {
        let list = format!("/sys/devices/system/node/node{number}/cpulist");
        let mut cpus = numbers(&String::from_utf8_lossy(&read_file(Path::new(&list)).ok()?))?;
        cpus.retain(|cpu| usable.contains(cpu));
        (!cpus.is_empty()).then_some(MemoryNode { number, cpus })
    });
    let nodes: Vec<MemoryNode> = nodes.collect();
    (!nodes.is_empty()).then_some(nodes)
}

/// The numbers of a list as the kernel writes it, like `0-3,8`. None: it is no such list.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

const WORD_BITS: usize = c_ulong::BITS as usize;

/// A mask with the bits `numbers`.
fn mask(numbers: &[usize]) -> Vec<c_ulong> {
    let mut words = vec![0; numbers.iter().max().map_or(1, |last| last / WORD_BITS + 1)];
    for number in numbers {
        words[number / WORD_BITS] |= 1 << (number % WORD_BITS);
    }
    words
}

fn done(code: c_long) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(numbers("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(numbers("\t0"), Some(vec![0]));
        assert_eq!(numbers("\n"), Some(Vec::new()));
        assert_eq!(numbers("0-x"), None);
        assert_eq!(mask(&[1, 64, 130]), [2, 1, 4]);
    }

    /// What the kernel says of the calling thread.
    fn allowed(what: &str) -> Vec<usize> {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        numbers(text.lines().find_map(|line| line.strip_prefix(what)).unwrap()).unwrap()
    }

    #[test]
    fn a_thread_is_bound_to_a_node() {
        // Where the kernel or a container forbids the choice, that is what is said.
        let Some(nodes) = memory_nodes() else { return };
        for node in nodes {
            let last = *node.cpus.last().unwrap();
            let part = MemoryNode { number: node.number, cpus: vec![last] };
            std::thread::spawn(move || {
                node.bind_thread().unwrap();
                assert_eq!(allowed("Cpus_allowed_list:"), node.cpus);
                part.bind_thread().unwrap();
                assert_eq!(allowed("Cpus_allowed_list:"), [last]);
                let mut mode: libc::c_int = -1;
                let mut bound = vec![0 as c_ulong; 64];
                // SAFETY: 1.
                let asked = unsafe {
                    let bits = bound.len() * WORD_BITS;
                    let (mode, bound) = (&raw mut mode, bound.as_mut_ptr());
                    libc::syscall(libc::SYS_get_mempolicy, mode, bound, bits, 0, 0)
                };
                done(asked).unwrap();
                assert_eq!(mode, libc::MPOL_BIND);
                bound.truncate(mask(&[part.number]).len());
                assert_eq!(bound, mask(&[part.number]));
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_said() {
        let nowhere = MemoryNode { number: 0, cpus: vec![1 << 20] };
        let refused = std::thread::spawn(move || nowhere.bind_thread()).join().unwrap();
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
