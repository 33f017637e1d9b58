//! TLS over a socket: rustls keeps the state and does no input or output of its own.
//!
//! Two locks, always in this order:
//! 1. `wire`: bytes on their way to the socket. Records are sent in the order in which they were
//!    made; its holder may wait for the socket.
//! 2. `state`: rustls. Its holder never waits.
//!
//! Receiving takes only the second, so one task may send while another one waits to receive, and
//! what rustls wants to send in response (new keys, an alert) goes out with the next reply or at
//! the end. After a failed send nothing more is sent: part of a record may have gone out.
//!
//! | memory | at most |
//! |---|---|
//! | while keys are agreed upon | [`BEGIN_BYTES`] |
//! | between two requests | [`OPEN_BYTES`] |
//!
//! Thread safety: everything may be shared. Calls suspend unless they say otherwise.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice_port::fiber::maybe_yield;
use pumice_port::net::Stream;
use pumice_port::sync::Mutex;
use pumice_port::{os, time};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::session::config::Config;

/// Limits for a handshake message, for what is decoded from it, and for the response.
const BEGIN_BYTES: usize = 96 << 10;
/// Memory for an incomplete record, a complete one, and the keys.
const OPEN_BYTES: usize = 40 << 10;
/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 32 << 10;
/// The same during the handshake.
const RECEIVE_BYTES_BEGIN: usize = 4 << 10;
/// With this many bytes not yet taken, rustls is given no more: a little above that it would
/// refuse.
const PLAIN_BYTES: usize = 16 << 10;
/// Size of the send buffer that is kept for reuse.
const WIRE_BYTES_KEPT: usize = 4 << 10;
/// How long sending the close notification may take.
const END_NANOS: u64 = 1_000_000_000;

/// The certificates of a file.
fn certificates(setting: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(setting, path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(format!("{setting}: {path}: no certificate in PEM"))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("{setting}: {path}: {error}")),
    }
}

fn read(setting: &str, path: &str) -> Result<Vec<u8>, String> {
    if path.is_empty() {
        return Err(format!("tls-port: no {setting} is set"));
    }
    os::read_file(Path::new(path)).map_err(|error| format!("{setting}: {path}: {error}"))
}

/// Certificates and rules of future connections; existing ones keep theirs.
#[derive(Clone)]
pub struct Settings(Arc<Mutex<Arc<ServerConfig>>>);

impl Settings {
    /// These, for now.
    pub fn new(config: Arc<ServerConfig>) -> Settings {
        Settings(Arc::new(Mutex::new(config)))
    }
    /// The settings for a new connection.
    pub fn now(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.lock())
    }
    /// Reloads the files that `config` names. Suspends.
    ///
    /// # Errors
    /// As [`settings`]; then they stay as they are.
    pub fn read_anew(&self, config: &Config) -> Result<(), String> {
        let new = settings(config)?;
        *self.0.lock() = new;
        Ok(())
    }
}

/// The TLS configuration that the settings describe. Suspends.
///
/// # Errors
/// A text about what is missing or wrong.
pub fn settings(config: &Config) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let file = |setting: &'static str| (setting, config.get(setting));
    let (cert_setting, cert_file) = file("tls-cert-file");
    let chain = certificates(cert_setting, &cert_file)?;
    let (key_setting, key_file) = file("tls-key-file");
    let key = PrivateKeyDer::from_pem_slice(&read(key_setting, &key_file)?);
    let key = key.map_err(|error| match error {
        pem::Error::NoItemsFound => format!("{key_setting}: {key_file}: no private key in PEM"),
        error => format!("{key_setting}: {key_file}: {error}"),
    })?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?;
    let demand = config.get("tls-auth-clients");
    let builder = if demand == "no" {
        builder.with_no_client_auth()
    } else {
        let (setting, path) = file("tls-ca-cert-file");
        let failed = |error: String| format!("{setting}: {path}: {error}");
        let mut roots = RootCertStore::empty();
        for certificate in certificates(setting, &path)? {
            roots.add(certificate).map_err(|error| failed(error.to_string()))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = match demand.as_str() {
            "optional" => verifier.allow_unauthenticated(),
            _ => verifier,
        };
        builder.with_client_cert_verifier(verifier.build().map_err(|e| failed(e.to_string()))?)
    };
    let settings = builder.with_single_cert(chain, key);
    Ok(Arc::new(settings.map_err(|error| format!("{cert_setting}, {key_setting}: {error}"))?))
}

/// Where within a record the received bytes end.
#[derive(Default)]
struct Place {
    /// The record's kind, version and length, as far as received.
    head: [u8; 5],
    filled: usize,
    /// Bytes of it still missing.
    left: usize,
}

impl Place {
    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let passed = bytes.len().min(self.left);
                self.left -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            self.head[self.filled] = *first;
            self.filled += 1;
            bytes = rest;
            if self.filled == self.head.len() {
                self.left = usize::from(u16::from_be_bytes([self.head[3], self.head[4]]));
                self.filled = 0;
            }
        }
    }

    fn is_within(&self) -> bool {
        self.filled > 0 || self.left > 0
    }
}

/// The state of rustls, and the bytes not yet given to it.
struct State {
    rustls: ServerConnection,
    /// Received bytes that wait until their predecessors are taken.
    waiting: Vec<u8>,
    place: Place,
}

impl State {
    /// Takes received bytes; an empty slice stands for the end of the stream.
    fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.place.pass(bytes);
        self.feed(bytes)
    }

    fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        loop {
            let taken = self.rustls.read_tls(&mut rest)?;
            let state = self.rustls.process_new_packets();
            let state = state.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            if taken == 0 || rest.is_empty() {
                // After the client's close notification nothing more is taken.
                return Ok(());
            }
            if state.plaintext_bytes_to_read() >= PLAIN_BYTES {
                self.waiting.extend_from_slice(rest);
                return Ok(());
            }
        }
    }

    /// Decrypted bytes, if there are any; 0 after the client's close notification.
    fn take(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.rustls.reader().read(buf) {
                Ok(n) => return Ok(Some(n)),
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                Err(_) if self.waiting.is_empty() => return Ok(None),
                Err(_) => {
                    let waiting = std::mem::take(&mut self.waiting);
                    self.feed(&waiting)?;
                }
            }
        }
    }

    /// Moves the bytes to be sent.
    fn give(&mut self, wire: &mut Vec<u8>) -> io::Result<()> {
        while self.rustls.wants_write() {
            self.rustls.write_tls(wire)?;
        }
        Ok(())
    }
}

/// A connection.
pub struct Tls {
    socket: Stream,
    wire: Mutex<Vec<u8>>,
    state: Mutex<State>,
    is_open: AtomicBool,
    has_part: AtomicBool,
}

impl Tls {
    /// A link before its handshake. Does not suspend.
    ///
    /// # Errors
    /// An error of rustls about the settings.
    pub fn new(settings: &Arc<ServerConfig>, socket: Stream) -> io::Result<Tls> {
        let rustls = ServerConnection::new(Arc::clone(settings)).map_err(io::Error::other)?;
        Ok(Tls {
            socket,
            wire: Mutex::new(Vec::new()),
            state: Mutex::new(State { rustls, waiting: Vec::new(), place: Place::default() }),
            is_open: AtomicBool::new(false),
            has_part: AtomicBool::new(false),
        })
    }

    /// The underlying socket.
    pub fn socket(&self) -> &Stream {
        &self.socket
    }

    /// See `Link::begin`.
    pub fn begin(&self, end_nanos: u64) -> io::Result<()> {
        let mut buf = vec![0; RECEIVE_BYTES_BEGIN];
        loop {
            let left = end_nanos.saturating_sub(time::now_nanos());
            if left == 0 {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.set_receive_timeout(Some(left));
            self.socket.set_send_timeout(Some(left));
            self.flush()?;
            if !self.state.lock().rustls.is_handshaking() {
                self.is_open.store(true, Ordering::Relaxed);
                return Ok(());
            }
            let received = self.socket.receive(&mut buf)?;
            if received == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let mut state = self.state.lock();
            state.receive(&buf[..received])?;
            self.has_part.store(state.place.is_within(), Ordering::Relaxed);
        }
    }

    /// See `Link::receive`. Encrypted bytes are received into `buf` first, so that an idle
    /// connection keeps no buffer for them.
    pub fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(n) = self.state.lock().take(buf)? {
            return Ok(n);
        }
        let most = buf.len().min(RECEIVE_BYTES);
        let received = self.socket.receive(&mut buf[..most])?;
        let mut state = self.state.lock();
        state.receive(&buf[..received])?;
        self.has_part.store(state.place.is_within(), Ordering::Relaxed);
        let taken = state.take(buf)?;
        taken.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    /// See `Link::has_part`. Does not suspend.
    pub fn has_part(&self) -> bool {
        self.has_part.load(Ordering::Relaxed)
    }

    /// See `Link::send_all`.
    pub fn send_all(&self, data: &[u8]) -> io::Result<()> {
        let mut wire = self.wire.lock();
        if !wire.is_empty() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut rest = data;
        while !rest.is_empty() {
            {
                let mut state = self.state.lock();
                let taken = state.rustls.writer().write(rest)?;
                if taken == 0 {
                    return Err(ErrorKind::WriteZero.into());
                }
                rest = &rest[taken..];
                state.give(&mut wire)?;
            }
            self.send(&mut wire)?;
            maybe_yield();
        }
        if wire.capacity() > WIRE_BYTES_KEPT {
            *wire = Vec::new();
        }
        Ok(())
    }

    /// Sends the pending bytes.
    fn flush(&self) -> io::Result<()> {
        let mut wire = self.wire.lock();
        self.state.lock().give(&mut wire)?;
        self.send(&mut wire)
    }

    /// Sends `wire`, which stays full when that fails.
    fn send(&self, wire: &mut Vec<u8>) -> io::Result<()> {
        self.socket.send_all(wire)?;
        wire.clear();
        Ok(())
    }

    /// See `Link::bytes`. Does not suspend.
    pub fn bytes(&self) -> usize {
        if self.is_open.load(Ordering::Relaxed) { OPEN_BYTES } else { BEGIN_BYTES }
    }

    /// Sends the last bytes: an alert with the reason, or the close notification.
    pub fn end(&self) {
        self.socket.set_send_timeout(Some(END_NANOS));
        let mut wire = self.wire.lock();
        if !wire.is_empty() {
            return;
        }
        let given = {
            let mut state = self.state.lock();
            // Nothing follows a fatal alert.
            state.rustls.send_close_notify();
            state.give(&mut wire)
        };
        // The other side may be gone already.
        given.and_then(|()| self.send(&mut wire)).ok();
    }
}
