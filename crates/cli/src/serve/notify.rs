//! `sd_notify`: tells the service manager, whose socket the environment names in `NOTIFY_SOCKET`,
//! that the server accepts connections, and that it stops.
//!
//! Protocol: one datagram of `NAME=VALUE` lines. Without the variable nothing happens. A manager
//! that does not listen is no reason to stop serving; stderr says so once.
//!
//! Thread safety: plain functions.

use std::ffi::OsString;

use pumice_port::net::send_unix_datagram;

/// The variable.
const SOCKET: &str = "NOTIFY_SOCKET";

/// The manager, if there is one.
pub struct Manager(Option<OsString>);

impl Manager {
    /// Of the environment.
    pub fn of_environment() -> Manager {
        Manager(std::env::var_os(SOCKET).filter(|address| !address.is_empty()))
    }

    /// The server accepts connections.
    pub fn ready(&self, what: &str) {
        self.tell(&format!("READY=1\nSTATUS={what}\nMAINPID={}\n", pumice_port::os::pid()));
    }

    /// The server begins to stop.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=closing the database\n");
    }

    fn tell(&self, text: &str) {
        let Some(address) = &self.0 else { return };
        if let Err(error) = send_unix_datagram(address, text.as_bytes()) {
            eprintln!("pumice serve: {SOCKET}={}: {error}", address.display());
        }
    }
}
