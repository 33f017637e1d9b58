//! Sockets by system calls, where std has no way to do it without waiting.
//!
//! Invariants cited by unsafe blocks: 1. calls pass live locals with their true lengths.
//!
//! Thread safety: nothing here waits, and everything may be called from anywhere.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The result of a system call.
pub(super) fn counted(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// An address as the kernel takes it.
#[derive(Clone, Copy)]
pub(super) enum Address {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
    Unix(libc::sockaddr_un),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let port = address.port().to_be();
        match address {
            SocketAddr::V4(address) => Address::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: port,
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Address::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: port,
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        }
    }
}

impl Address {
    /// A name in the file system.
    ///
    /// # Errors
    /// It cannot be the name of a socket.
    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        let family = libc::AF_UNIX as libc::sa_family_t;
        let mut name = libc::sockaddr_un { sun_family: family, sun_path: [0; 108] };
        let bytes = path.as_os_str().as_bytes();
        // One more for the terminating zero. A leading zero would be an abstract name, outside the
        // file system.
        if bytes.is_empty() || bytes.len() >= name.sun_path.len() || bytes.contains(&0) {
            return Err(io::Error::new(ErrorKind::InvalidInput, "no name for a socket"));
        }
        for (to, byte) in name.sun_path.iter_mut().zip(bytes) {
            *to = *byte as libc::c_char;
        }
        Ok(Address::Unix(name))
    }

    fn family(&self) -> libc::c_int {
        match self {
            Address::V4(_) => libc::AF_INET,
            Address::V6(_) => libc::AF_INET6,
            Address::Unix(_) => libc::AF_UNIX,
        }
    }

    fn parts(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            Address::V4(a) => (std::ptr::from_ref(a).cast(), size_of_val(a) as libc::socklen_t),
            Address::V6(a) => (std::ptr::from_ref(a).cast(), size_of_val(a) as libc::socklen_t),
            Address::Unix(a) => (std::ptr::from_ref(a).cast(), size_of_val(a) as libc::socklen_t),
        }
    }

    /// A new socket for such addresses, in blocking mode unless `flags` say otherwise.
    ///
    /// # Errors
    /// No descriptor or memory.
    pub(super) fn socket(&self, flags: libc::c_int) -> io::Result<OwnedFd> {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
        // SAFETY: no memory is involved.
        let number = counted(unsafe { libc::socket(self.family(), kind, 0) } as isize)?;
        // SAFETY: a new descriptor without another owner.
        Ok(unsafe { OwnedFd::from_raw_fd(number as RawFd) })
    }

    /// Gives the socket this name.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn bind(&self, fd: &OwnedFd) -> io::Result<()> {
        let (name, len) = self.parts();
        // SAFETY: invariant 1.
        counted(unsafe { libc::bind(fd.as_raw_fd(), name, len) } as isize).map(drop)
    }

    /// A connection to it; true when it is only in progress. In either case the socket does not
    /// block.
    ///
    /// # Errors
    /// WouldBlock when the backlog of a Unix listener is full; what the operating system says.
    pub(super) fn connect(&self) -> io::Result<(OwnedFd, bool)> {
        let fd = self.socket(libc::SOCK_NONBLOCK)?;
        let (name, len) = self.parts();
        // SAFETY: invariant 1.
        match counted(unsafe { libc::connect(fd.as_raw_fd(), name, len) } as isize) {
            Ok(_) => Ok((fd, false)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
                Ok((fd, true))
            }
            Err(e) => Err(e),
        }
    }
}

/// Listens at its name.
///
/// # Errors
/// What the operating system says.
pub(super) fn listen(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: no memory is involved.
    counted(unsafe { libc::listen(fd.as_raw_fd(), libc::SOMAXCONN) } as isize).map(drop)
}

/// The outcome of a connection in progress.
///
/// # Errors
/// What the operating system says.
pub(super) fn outcome(fd: RawFd) -> io::Result<()> {
    let mut error: libc::c_int = 0;
    let mut len = size_of_val(&error) as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
    // SAFETY: invariant 1.
    let done = unsafe { libc::getsockopt(fd, level, name, (&raw mut error).cast(), &mut len) };
    counted(done as isize)?;
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Sets an option that is a number.
///
/// # Errors
/// What the operating system says.
pub(super) fn set_option(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: invariant 1.
    let done = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    counted(done as isize).map(drop)
}
