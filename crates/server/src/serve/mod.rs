//! Serving: listeners, a fiber per connection, upkeep, shutdown.
//!
//! | file | what |
//! |---|---|
//! | `connection` | one connection |
//! | `executor` | one command |
//! | `http` | pages over HTTP |
//! | `link`, `tls` | a connection's bytes, plain or within TLS |
//! | `server` | what all tasks share |
//! | `set_run` | SETs of a pipeline, together |
//! | `metrics` | metrics for Prometheus |
//! | `status` | the status page |
//! | `recovery` | recovery from errors of the disk |
//! | `upkeep` | syncs every second, tries to recover, deletes keys that have expired |
//!
//! Shutdown: listeners close; every connection executes what it has received, sends the replies and
//! closes; one that takes longer than ten seconds is cut off; the engine is closed with everything
//! durable.
//!
//! Thread safety: [`Server`] may be used from any task. Calls suspend.

pub mod connection;
pub mod executor;
mod http;
pub mod link;
mod metrics;
mod recovery;
mod server;
mod set_run;
mod status;
#[cfg(feature = "tls")]
pub mod tls;
mod upkeep;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice::{BlockCache, CacheOptions, FileSystem, FilterPolicy, Options};
use pumice_port::fiber::{IoMode, Runtime};
use pumice_port::net::{Direction, Listener, SocketAddr, Stream};
use pumice_port::thread::{self, JoinHandle};
use pumice_port::{os, time};

use link::Cover;

pub use server::Server;

use crate::commands::{acl_rules, memory};
use crate::keyspace::Keyspace;
use crate::session::Shared;
use crate::session::clients::Peer;
use crate::session::config::Config;
use crate::session::stats::Stats;

/// How long connections may take to end.
const END: Duration = Duration::from_secs(10);
/// How long sending the refusal of a connection may take.
const REFUSAL: Duration = Duration::from_secs(1);

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Directory of the data.
    pub dir: PathBuf,
    /// Memory of one memtable.
    pub write_buffer_bytes: u64,
    /// Memory for blocks of tables.
    pub cache_bytes: u64,
    /// The codec of tables, by RocksDB's name.
    pub compression: &'static str,
    /// Flushes and compactions at a time.
    pub background_jobs: u32,
    /// Bits of a bloom filter for each key.
    pub filter_bits: u32,
    /// Tables are read past the system's cache.
    pub direct_reads: bool,
}

/// A server that runs.
pub struct Running {
    server: Arc<Server>,
    runtime: Arc<Runtime>,
    listeners: Vec<Arc<Listener>>,
    tasks: Vec<JoinHandle<()>>,
    /// Ends when the engine is closed.
    giver: Option<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
    tls_addresses: Vec<SocketAddr>,
    metrics: Option<SocketAddr>,
    status: Option<SocketAddr>,
    socket: Option<PathBuf>,
}

impl EngineSettings {
    fn of(config: &Config) -> EngineSettings {
        EngineSettings {
            dir: PathBuf::from(config.get("dir")),
            write_buffer_bytes: config.number("write-buffer-bytes"),
            cache_bytes: config.number("cache-bytes"),
            compression: "kLZ4Compression",
            background_jobs: 4,
            filter_bits: 10,
            direct_reads: config.get("direct-reads") == "yes",
        }
    }

    /// As Pumice's options.
    fn options(&self) -> Result<Options, String> {
        let mut options = Options::default();
        for (name, value) in [
            ("write_buffer_size", self.write_buffer_bytes.to_string()),
            ("compression", self.compression.to_string()),
            ("max_background_jobs", self.background_jobs.to_string()),
            ("use_direct_reads", self.direct_reads.to_string()),
        ] {
            options.set(name, &value).map_err(|error| format!("{name}: {error}"))?;
        }
        let capacity = self.cache_bytes as usize;
        let cache = CacheOptions::new(capacity);
        let filter = FilterPolicy::bloom(f64::from(self.filter_bits));
        options.cf.table_factory.filter_policy = Some(filter);
        options.cf.table_factory.block_cache = Some(BlockCache::new(cache));
        Ok(options)
    }
}

/// Opens the database that the settings name, on `files`, or on the machine's.
fn open(
    config: &Config,
    runtime: &Runtime,
    files: Option<Arc<dyn FileSystem>>,
) -> Result<Keyspace, String> {
    let settings = EngineSettings::of(config);
    let mut options = settings.options()?;
    if let Some(files) = files {
        options.db.file_system = files;
    }
    let opened = runtime.run("open", || Keyspace::open(options, &settings.dir));
    opened.map_err(|error| format!("{}: {error}", settings.dir.display()))
}

/// An address to listen on.
struct Address {
    at: SocketAddr,
    /// The server starts without it where the machine has no such address.
    is_optional: bool,
}

impl Address {
    /// Listens there; None: the machine has no such address, and need not have it.
    fn bind(&self, what: &str) -> Result<Option<Listener>, String> {
        match Listener::bind_tcp(self.at) {
            Ok(listener) => Ok(Some(listener)),
            Err(error) if self.is_optional && is_no_address(&error) => Ok(None),
            Err(error) => Err(format!("{what}{}: {error}", self.at)),
        }
    }
}

/// There is no such address, or no such family of addresses, on this machine.
fn is_no_address(error: &std::io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

/// The addresses of one setting with the port of another.
///
/// One with `-` before it need not exist on this machine.
fn tcp_addresses(config: &Config, bind: &str, port: &str) -> Result<Vec<Address>, String> {
    let port = config.number(port) as u16;
    let mut addresses = Vec::new();
    for word in config.get(bind).split_whitespace() {
        let (host, is_optional) = match word.strip_prefix('-') {
            Some(host) => (host, true),
            None => (word, false),
        };
        let host = match host {
            "*" => "0.0.0.0",
            "localhost" => "127.0.0.1",
            other => other,
        };
        let host = host.parse().map_err(|_| format!("{bind}: '{word}' is not an address"))?;
        addresses.push(Address { at: SocketAddr::new(host, port), is_optional });
    }
    Ok(addresses)
}

/// The addresses for plain connections; with port 0: any port if there is no other listener, else
/// none.
fn plain_addresses(config: &Config) -> Result<Vec<Address>, String> {
    let has_others = !config.get("unixsocket").is_empty() || config.number("tls-port") != 0;
    if config.number("port") == 0 && has_others {
        return Ok(Vec::new());
    }
    tcp_addresses(config, "bind", "port")
}

/// The addresses for TLS, and its settings.
type ForTls = (Vec<Address>, Cover);

#[cfg(feature = "tls")]
fn for_tls(config: &Config) -> Result<Option<ForTls>, String> {
    if config.number("tls-port") == 0 {
        return Ok(None);
    }
    let addresses = tcp_addresses(config, "bind", "tls-port")?;
    Ok(Some((addresses, Cover::Tls(tls::Settings::new(tls::settings(config)?)))))
}

/// There is no such setting.
#[cfg(not(feature = "tls"))]
fn for_tls(_: &Config) -> Result<Option<ForTls>, String> {
    Ok(None)
}

/// From now on CONFIG SET changes the settings of future connections.
#[cfg(feature = "tls")]
fn let_tls_change(shared: &Shared, tls: &Option<ForTls>) {
    if let Some((_, Cover::Tls(settings))) = tls {
        let settings = settings.clone();
        let change = Box::new(move |config: &Config| settings.read_anew(config));
        // It is set once: a server starts once.
        drop(shared.tls_changed.set(change));
    }
}

/// There are no such settings.
#[cfg(not(feature = "tls"))]
fn let_tls_change(_: &Shared, _: &Option<ForTls>) {}

impl Running {
    /// Opens the database, listens and serves. `mode`: how fibers do input and output. Suspends.
    ///
    /// # Errors
    /// An error text.
    pub fn start(config: Config, mode: IoMode) -> Result<Running, String> {
        Running::start_with(config, mode, None)
    }

    /// As [`Running::start`], on `files`, or on the machine's.
    ///
    /// # Errors
    /// An error text.
    pub fn start_with(
        config: Config,
        mode: IoMode,
        files: Option<Arc<dyn FileSystem>>,
    ) -> Result<Running, String> {
        Running::start_over(config, mode, |config, runtime| open(config, runtime, files))
    }

    /// As [`Running::start`], over the keyspace that `open` returns, which may run tasks on the
    /// server's loops.
    ///
    /// # Errors
    /// An error text.
    pub fn start_over(
        config: Config,
        mode: IoMode,
        open: impl FnOnce(&Config, &Runtime) -> Result<Keyspace, String>,
    ) -> Result<Running, String> {
        let loops = match config.number("loops") as usize {
            0 => thread::available_parallelism(),
            loops => loops,
        };
        let runtime = Runtime::builder().loops(loops).io(mode).name("pumice:serve").build();
        let runtime = runtime.map_err(|error| format!("event loops: {error}"))?;
        let runtime = Arc::new(runtime);
        let addresses = plain_addresses(&config)?;
        let tls = for_tls(&config)?;
        let keyspace = open(&config, &runtime)?;
        let server = Arc::new(Server::new(Shared::new(keyspace, config)));
        let_tls_change(&server.shared, &tls);
        let started = &server.shared.stats.started_millis;
        started.store(time::wall_micros() / 1000, Ordering::Relaxed);
        let stats = &server.shared.stats;
        stats.is_uring.store(runtime.stats().uring_loops > 0, Ordering::Relaxed);
        stats.startup_bytes.store(memory::resident_bytes(), Ordering::Relaxed);
        stats.saved_writes.store(server.shared.keyspace.writes(), Ordering::Relaxed);
        let mut running = Running {
            server,
            runtime,
            listeners: Vec::new(),
            tasks: Vec::new(),
            giver: None,
            addresses: Vec::new(),
            tls_addresses: Vec::new(),
            metrics: None,
            status: None,
            socket: None,
        };
        let users = acl_rules::load_at_start(&running.server.shared);
        match users
            .and_then(|()| running.listen(&addresses, tls))
            .and_then(|()| running.listen_for_pages())
        {
            Ok(()) => {
                let upkeep = upkeep::start(&running.server, &running.runtime);
                let (tasks, giver) = upkeep?;
                running.tasks.extend(tasks);
                running.giver = Some(giver);
                Ok(running)
            }
            Err(why) => {
                running.stop()?;
                Err(why)
            }
        }
    }

    fn listen(&mut self, plain: &[Address], tls: Option<ForTls>) -> Result<(), String> {
        let mut bound = Vec::new();
        for address in plain {
            let Some(listener) = address.bind("")? else { continue };
            self.addresses.extend(listener.address());
            bound.push((listener, Cover::Plain));
        }
        let (addresses, cover) = tls.unwrap_or((Vec::new(), Cover::Plain));
        for address in addresses {
            let Some(listener) = address.bind("tls-port: ")? else { continue };
            self.tls_addresses.extend(listener.address());
            bound.push((listener, cover.clone()));
        }
        let config = &self.server.shared.config;
        let path = config.get("unixsocket");
        if !path.is_empty() {
            let mode = u32::from_str_radix(&config.get("unixsocketperm"), 8);
            let mode = mode.map_err(|_| "unixsocketperm: no octal number".to_string())?;
            let path = PathBuf::from(path);
            let listener = Listener::bind_unix(&path, mode);
            let listener = listener.map_err(|error| format!("{}: {error}", path.display()))?;
            bound.push((listener, Cover::Plain));
            self.socket = Some(path);
        }
        for (listener, cover) in bound {
            let (listener, server) = (Arc::new(listener), Arc::clone(&self.server));
            self.listeners.push(Arc::clone(&listener));
            let runtime = Arc::clone(&self.runtime);
            let accept = move || accept(&server, &listener, &cover, &runtime);
            self.tasks.push(self.runtime.spawn("accept", accept));
        }
        Ok(())
    }

    fn listen_for_pages(&mut self) -> Result<(), String> {
        self.metrics = self.listen_over_http("bind", "metrics-port", metrics::answer)?;
        self.status = self.listen_over_http("status-bind", "status-port", status::answer)?;
        Ok(())
    }

    /// Serves HTTP on a port, unless it is 0; returns the first address.
    fn listen_over_http(
        &mut self,
        bind: &str,
        port: &'static str,
        answer: http::Answer,
    ) -> Result<Option<SocketAddr>, String> {
        let config = &self.server.shared.config;
        if config.number(port) == 0 {
            return Ok(None);
        }
        let mut first = None;
        for address in tcp_addresses(config, bind, port)? {
            let Some(listener) = address.bind(&format!("{port}: "))? else { continue };
            first = first.or(listener.address());
            let (listener, server) = (Arc::new(listener), Arc::clone(&self.server));
            self.listeners.push(Arc::clone(&listener));
            let serve = move || http::serve(&server, &listener, answer);
            self.tasks.push(self.runtime.spawn("http", serve));
        }
        Ok(first)
    }

    /// The address of the Prometheus page.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The address of the status page.
    pub fn status(&self) -> Option<SocketAddr> {
        self.status
    }

    /// The TCP addresses it listens on for plain bytes.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The TCP addresses it listens on for TLS.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// The Unix socket it listens on.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// What connections share.
    pub fn shared(&self) -> &Shared {
        &self.server.shared
    }

    /// Waits, for a limited time, until a client has requested shutdown; returns whether one has.
    /// Suspends.
    pub fn wait(&self, limit: Duration) -> bool {
        self.server.is_ending.wait_timeout(limit)
    }

    /// Requests shutdown, as a client may. Does not suspend.
    pub fn ask_to_end(&self) -> impl Fn() + Send + Sync + 'static {
        let server = Arc::clone(&self.server);
        move || server.is_ending.set()
    }

    /// Shuts down cleanly. Suspends.
    ///
    /// # Errors
    /// An error text about what could not be saved.
    pub fn stop(mut self) -> Result<(), String> {
        let server = Arc::clone(&self.server);
        server.is_ending.set();
        // A listener that has failed has closed already.
        self.listeners.iter().for_each(|listener| listener.shutdown());
        for client in server.shared.clients.list() {
            client.hang_up_gently();
        }
        if !server.wait_until_alone(END) {
            server.shared.clients.list().iter().for_each(|client| client.hang_up());
            server.wait_until_alone(END);
        }
        for task in self.tasks.drain(..) {
            task.join().map_err(|_| "a task of the server has panicked".to_string())?;
        }
        if let Some(path) = &self.socket {
            os::unlink(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let closed = self.runtime.run("close", || server.shared.keyspace.close());
        if let Some(giver) = self.giver.take() {
            giver.join().map_err(|_| "a task of the server has panicked".to_string())?;
        }
        closed.map_err(|error| format!("closing: {error}"))
    }
}

/// Accepts connections until the shutdown.
fn accept(server: &Arc<Server>, listener: &Listener, cover: &Cover, runtime: &Runtime) {
    let mut incoming = listener.incoming();
    while !server.is_ending.is_set() {
        match incoming.accept() {
            Ok(stream) => welcome(server, stream, cover, runtime),
            // No descriptors, or memory: others have to end first. Or the listener was closed.
            Err(_) if !server.is_ending.is_set() => thread::sleep(Duration::from_millis(10)),
            Err(_) => {}
        }
    }
}

/// Starts a connection, or refuses it.
fn welcome(server: &Arc<Server>, stream: Stream, cover: &Cover, runtime: &Runtime) {
    let shared = &server.shared;
    Stats::add(&shared.stats.connections, 1);
    let config = &shared.config;
    let is_foreign = stream.peer().is_some_and(|peer| !peer.ip().to_canonical().is_loopback());
    let refusal = if is_foreign && shared.acl.is_open() && config.get("protected-mode") == "yes" {
        DENIED
    } else if !server.enter() {
        if server.is_ending.is_set() {
            return;
        }
        Stats::add(&shared.stats.refused, 1);
        "-ERR max number of clients reached\r\n"
    } else {
        ""
    };
    if !refusal.is_empty() && !cover.is_plain() {
        // As in Redis: the client is dropped without an error text during the handshake.
        return;
    }
    if !refusal.is_empty() {
        // This much fits into an empty socket buffer, so nothing waits here.
        stream.set_send_timeout(Some(REFUSAL.as_nanos() as u64));
        // The client may have gone before reading it.
        stream.send_all(refusal.as_bytes()).ok();
        return;
    }
    if stream.peer().is_some() {
        // A client that has left meanwhile is noticed when it is served.
        stream.set_keepalive(config.number("tcp-keepalive") as u32).ok();
    }
    let text = |address: Option<SocketAddr>| match (address, config.get("unixsocket")) {
        (Some(address), _) => address.to_string(),
        (None, path) => format!("{path}:0"),
    };
    let (address, local_address) = (text(stream.peer()), text(stream.local()));
    let link = match cover.over(stream) {
        Ok(link) => Arc::new(link),
        Err(_) => {
            server.leave();
            return;
        }
    };
    let (hard, gentle) = (Arc::clone(&link), Arc::clone(&link));
    // A connection that is already gone cannot be shut down.
    let hangup = Box::new(move || drop(hard.socket().shutdown(Direction::Both)));
    let gently = Box::new(move || drop(gentle.socket().shutdown(Direction::Receive)));
    let descriptor = link.socket().descriptor();
    let peer = Peer { descriptor, address, local_address, hangup, gently };
    let own = Arc::clone(server);
    let index = server.next_loop.fetch_add(1, Ordering::Relaxed) as usize % runtime.loops();
    runtime.spawn_on(index, "client", move || connection::serve(&own, &link, peer));
}

/// Redis's reply in protected mode, with advice that applies here.
const DENIED: &str = "-DENIED Pumice is running in protected mode because protected mode is \
enabled and no password is set for the default user. In this mode connections are only accepted \
from the loopback interface. To accept connections from other machines set a password with \
'requirepass', or set 'protected-mode no'.\r\n";
