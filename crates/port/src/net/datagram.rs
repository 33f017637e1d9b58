//! One datagram to a Unix socket: how a service tells its manager what it does (`sd_notify`).
//!
//! Thread safety: a plain function.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `bytes` to the socket at a path, or, after `@`, of an abstract name. Does not wait: a
/// receiver whose queue is full does not get it.
///
/// # Errors
/// What the operating system says: nobody listens there, or the queue is full.
pub fn send_unix_datagram(address: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(bytes, &address).map(drop)
}
