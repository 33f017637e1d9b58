//! TLS: a server with it, a client that speaks it, certificates that are made here.
//!
//! | file | what |
//! |---|---|
//! | `serves` | permitted clients are served as without TLS |
//! | `refuses` | clients that may not connect, and clients that take too long |
//! | `links` | the connection alone: close, truncation, changed bytes, concurrent tasks |
//! | `tools` | Debian's redis-cli |

mod links;
mod refuses;
mod serves;
mod tools;

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use pumice_port::net::{Listener, SocketAddr, Stream};
use pumice_server::serve::tls;
use pumice_server::{Config, Running};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::connections::{PATIENCE, try_start};

const PATIENCE_NANOS: u64 = PATIENCE.as_nanos() as u64;

/// What openssl puts into certificates.
const EXTENSIONS: &str = "[req]\ndistinguished_name = dn\n[dn]\n\
    [ca]\nbasicConstraints = critical, CA:TRUE\n\
    [leaf]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = DNS:localhost\n";

/// Certificates in a directory: of two authorities, `ca` and `other`, of a server and of clients.
pub struct Papers(PathBuf);

impl Papers {
    /// `ca` has signed `server` and `client`, `other` has signed `stranger`.
    pub fn make(dir: &Path) -> Papers {
        let papers = Papers(dir.join("papers"));
        std::fs::create_dir(&papers.0).unwrap();
        std::fs::write(papers.0.join("openssl.cnf"), EXTENSIONS).unwrap();
        for (name, by) in [
            ("ca", None),
            ("other", None),
            ("server", Some("ca")),
            ("client", Some("ca")),
            ("stranger", Some("other")),
        ] {
            papers.issue(name, by);
        }
        papers
    }

    fn issue(&self, name: &str, by: Option<&str>) {
        let mut command = Command::new("openssl");
        command.current_dir(&self.0).args(["req", "-x509", "-config", "openssl.cnf", "-nodes"]);
        command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "30"]);
        let kind = if by.is_some() { "leaf" } else { "ca" };
        command.args(["-subj", &format!("/CN={name}"), "-extensions", kind]);
        command.args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.crt")]);
        if let Some(by) = by {
            command.args(["-CA", &format!("{by}.crt"), "-CAkey", &format!("{by}.key")]);
        }
        let made = command.output().expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// The path of a certificate.
    pub fn certificate(&self, name: &str) -> String {
        self.0.join(format!("{name}.crt")).to_str().unwrap().to_string()
    }

    /// The path of its key.
    pub fn key(&self, name: &str) -> String {
        self.0.join(format!("{name}.key")).to_str().unwrap().to_string()
    }

    /// The settings of a server with these certificates, except its port.
    pub fn settings(&self, demand: &str) -> Vec<(&'static str, String)> {
        vec![
            ("tls-cert-file", self.certificate("server")),
            ("tls-key-file", self.key("server")),
            ("tls-ca-cert-file", self.certificate("ca")),
            ("tls-auth-clients", demand.to_string()),
            // No client is too slow here unless a test says so.
            ("auth-timeout", "3600".to_string()),
        ]
    }

    /// The same for rustls.
    pub fn of_server(&self, demand: &str) -> Arc<rustls::ServerConfig> {
        let config = Config::new();
        for (name, value) in self.settings(demand) {
            config.set(name, &value).unwrap();
        }
        tls::settings(&config).unwrap()
    }

    /// A client that trusts `authority` and shows the certificate `own`.
    pub fn of_client(
        &self,
        authority: &str,
        own: Option<&str>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let read = |path: String| CertificateDer::from_pem_slice(&std::fs::read(path).unwrap());
        let mut roots = RootCertStore::empty();
        roots.add(read(self.certificate(authority)).unwrap()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::from_pem_slice(&std::fs::read(self.key(own)).unwrap());
                let chain = vec![read(self.certificate(own)).unwrap()];
                builder.with_client_auth_cert(chain, key.unwrap()).unwrap()
            }
        })
    }
}

/// An address of the loopback interface that is this process's, and ports of it that are free, of
/// the system's choice.
pub fn place<const PORTS: usize>() -> (String, [String; PORTS]) {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    let address = [127, 64 + a % 128, b, c];
    // All are held before one is released, so that they differ.
    let held = [(); PORTS].map(|()| Listener::bind_tcp((address, 0).into()).unwrap());
    let ports = held.map(|listener| listener.address().unwrap().port().to_string());
    (format!("127.{}.{b}.{c}", 64 + a % 128), ports)
}

/// Starts a server at such an address, or at another if it is in use meanwhile.
pub fn start_there<const PORTS: usize>(
    dir: &Path,
    settings: impl Fn(&[String; PORTS]) -> Vec<(&'static str, String)>,
) -> Running {
    for _ in 0..20 {
        let (bind, ports) = place();
        let mut settings = settings(&ports);
        settings.push(("bind", bind));
        let settings: Vec<_> = settings.iter().map(|(n, v)| (*n, v.as_str())).collect();
        match try_start(dir, &settings) {
            Err(why) if why.contains("in use") => println!("once more: {why}"),
            started => return started.unwrap(),
        }
    }
    panic!("no port stays free")
}

/// A server that listens for TLS alone.
pub fn start_tls(
    dir: &Path,
    papers: &Papers,
    demand: &str,
    more: &[(&'static str, &str)],
) -> Running {
    let running = start_there(dir, |[port]| {
        let mut settings = papers.settings(demand);
        settings.push(("tls-port", port.clone()));
        settings.extend(more.iter().map(|(name, value)| (*name, value.to_string())));
        settings
    });
    assert!(running.addresses().is_empty());
    running
}

/// Where it listens.
pub fn address(running: &Running) -> SocketAddr {
    running.tls_addresses()[0]
}

/// A socket as std's traits see it, which transfers at most this many bytes at once.
pub struct Pipe {
    pub stream: Stream,
    pub most: usize,
}

impl Read for Pipe {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let most = buf.len().min(self.most);
        self.stream.receive(&mut buf[..most])
    }
}

impl Write for Pipe {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let most = buf.len().min(self.most);
        self.stream.send_all(&buf[..most]).map(|()| most)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A client that waits a bounded time.
pub struct TlsCaller {
    pub tls: rustls::StreamOwned<ClientConnection, Pipe>,
    rest: Vec<u8>,
}

impl TlsCaller {
    /// Nothing is sent yet.
    pub fn over(stream: Stream, config: &Arc<ClientConfig>) -> TlsCaller {
        stream.set_receive_timeout(Some(PATIENCE_NANOS));
        stream.set_send_timeout(Some(PATIENCE_NANOS));
        let name = "localhost".try_into().unwrap();
        let client = ClientConnection::new(Arc::clone(config), name).unwrap();
        let pipe = Pipe { stream, most: usize::MAX };
        TlsCaller { tls: rustls::StreamOwned::new(client, pipe), rest: Vec::new() }
    }
    pub fn to(address: SocketAddr, config: &Arc<ClientConfig>) -> TlsCaller {
        TlsCaller::over(Stream::connect_tcp(address, PATIENCE_NANOS).unwrap(), config)
    }
    pub fn send(&mut self, bytes: &[u8]) {
        self.tls.write_all(bytes).unwrap();
        self.tls.flush().unwrap();
    }
    /// Receives until the data ends with `end`.
    pub fn until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut buf = vec![0; 1 << 16];
        while !self.rest.ends_with(end) {
            let n = self.tls.read(&mut buf).unwrap();
            assert!(n > 0, "the server hung up");
            self.rest.extend_from_slice(&buf[..n]);
        }
        std::mem::take(&mut self.rest)
    }
    /// The one-line reply to an inline command.
    pub fn line(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\n").as_bytes());
        String::from_utf8(self.until(b"\r\n")).unwrap().trim_end().to_string()
    }
    /// Receives until the server's close notification; an error when it was cut off.
    pub fn until_closed(&mut self) -> std::io::Result<String> {
        let mut buf = vec![0; 1 << 16];
        loop {
            match self.tls.read(&mut buf) {
                Ok(0) => return Ok(super::text(&std::mem::take(&mut self.rest))),
                Ok(n) => self.rest.extend_from_slice(&buf[..n]),
                Err(error) => return Err(error),
            }
        }
    }
    /// Why the connection failed: the received alert, or this side's error.
    pub fn refusal(&mut self) -> String {
        let asked = self.tls.write_all(b"PING\r\n").and_then(|()| self.tls.flush());
        let error = match asked.and_then(|()| self.until_closed()) {
            Ok(reply) => panic!("served: {reply:?}"),
            Err(error) => error,
        };
        if error.kind() == ErrorKind::InvalidData {
            return error.to_string();
        }
        // The server closed before everything was sent; what it sent before is available.
        assert_ne!(error.kind(), ErrorKind::TimedOut, "neither served nor refused");
        let (client, pipe) = (&mut self.tls.conn, &mut self.tls.sock);
        while client.read_tls(pipe).unwrap() > 0 {
            if let Err(error) = client.process_new_packets() {
                return error.to_string();
            }
        }
        panic!("no alert: {error}")
    }
}
