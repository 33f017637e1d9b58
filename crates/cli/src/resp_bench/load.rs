//! The load itself: connections on fibers, in a closed or an open loop.
//!
//! Closed: a connection sends its next requests when the last ones are answered. Open: requests
//! arrive at each connection by a schedule of their own (random gaps, exponentially distributed,
//! all together `rate` a second), and a latency counts from the scheduled arrival, so it includes
//! the time in which a request could not be sent because the one before was not answered. Requests
//! not sent by half the duration plus a second after the end are abandoned and counted.
//!
//! Thread safety: [`run`] suspends; a tally belongs to its loop.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use pumice_base::random::Rng;
use pumice_port::fiber::{Runtime, maybe_yield, spawn_here};
use pumice_port::net::Stream;
use pumice_port::sync::Event;
use pumice_port::{thread, time};

use super::flags::Place;
use super::latencies::Latencies;
use super::replies;
use super::requests::{Request, drawn};

/// Larger than any reply to these requests.
const REPLY_BYTES_MAX: usize = 1 << 30;
const SECOND_NANOS: f64 = 1e9;
const CONNECT_NANOS: u64 = 60_000_000_000;
const BUFFER_BYTES: usize = 4 << 10;

/// The load to generate.
pub struct Load {
    /// Where.
    pub place: Place,
    /// Sent first.
    pub password: Option<String>,
    /// Connections.
    pub clients: usize,
    /// Requests that are sent together.
    pub pipeline: u64,
    /// The request.
    pub request: Request,
    /// Keys there are; 0 for one.
    pub keys: u64,
    /// Each key in turn.
    pub is_fill: bool,
    /// Requests in all.
    pub requests: Option<u64>,
    /// How long.
    pub seconds: Option<f64>,
    /// Arrivals a second; None for a closed loop.
    pub rate: Option<f64>,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The results.
#[derive(Default)]
pub struct Tally {
    /// How long requests took, from their arrival.
    pub latencies: Latencies,
    /// How late the client itself was for arrivals that it waited for.
    pub lateness: Latencies,
    /// Error replies, and the first of them.
    pub errors: u64,
    /// See `errors`.
    pub first_error: Option<String>,
    /// Requests that arrived and were never sent.
    pub unsent: u64,
}

impl Tally {
    fn merge(&mut self, other: Tally) {
        self.latencies.merge(&other.latencies);
        self.lateness.merge(&other.lateness);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.unsent += other.unsent;
    }
}

/// What connections share.
struct Common {
    load: Load,
    left: AtomicU64,
    next_key: AtomicU64,
    missing: AtomicUsize,
    all_there: Event,
    start: Event,
    start_nanos: AtomicU64,
}

impl Common {
    /// Takes up to `most` requests that are still to be made.
    fn take(&self, most: u64) -> u64 {
        let less = |left: u64| Some(left.saturating_sub(most));
        let order = Ordering::Relaxed;
        self.left.fetch_update(order, order, less).map_or(0, |left| left.min(most))
    }
}

/// Loads the server and returns the results. `started` is called when all are connected. Suspends.
///
/// # Errors
/// A connection that failed, in words.
pub fn run(load: Load, runtime: &Runtime, started: impl FnOnce()) -> Result<Tally, String> {
    let common = Arc::new(Common {
        left: AtomicU64::new(load.requests.unwrap_or(u64::MAX)),
        next_key: AtomicU64::new(0),
        missing: AtomicUsize::new(load.clients),
        all_there: Event::new(),
        start: Event::new(),
        start_nanos: AtomicU64::new(0),
        load,
    });
    let loops = runtime.loops();
    let drive = |index: usize| {
        let common = Arc::clone(&common);
        runtime.spawn_on(index, "load", move || drive_loop(&common, index, loops))
    };
    let drivers: Vec<_> = (0..loops).map(drive).collect();
    common.all_there.wait();
    started();
    common.start_nanos.store(time::now_nanos(), Ordering::Release);
    common.start.set();
    let mut all = Tally::default();
    for driver in drivers {
        all.merge(driver.join().map_err(|_| "a loop of the client has panicked")??);
    }
    Ok(all)
}

/// The connections of one loop.
fn drive_loop(common: &Arc<Common>, index: usize, loops: usize) -> Result<Tally, String> {
    let tally = Rc::new(RefCell::new(Tally::default()));
    let own = (0..common.load.clients).filter(|client| client % loops == index);
    let clients: Vec<_> = own
        .map(|client| {
            let (common, tally) = (Arc::clone(common), Rc::clone(&tally));
            spawn_here("client", move || {
                let connection = Connection::open(&common, client as u64);
                if common.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                    common.all_there.set();
                }
                common.start.wait();
                connection?.run(&tally)
            })
        })
        .collect();
    let mut result = Ok(());
    for client in clients {
        let ended = client.join().unwrap_or_else(|_| Err("a connection has panicked".into()));
        result = result.and(ended);
    }
    result?;
    Ok(tally.take())
}

struct Connection<'c> {
    common: &'c Common,
    stream: Stream,
    random: Rng,
    /// Draws values; separate from `random`, so that keys are the same with and without it.
    noise: Rng,
    out: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
}

impl<'c> Connection<'c> {
    fn open(common: &'c Common, number: u64) -> Result<Connection<'c>, String> {
        let load = &common.load;
        let stream = match &load.place {
            Place::Tcp(address) => Stream::connect_tcp(*address, CONNECT_NANOS),
            Place::Unix(path) => Stream::connect_unix(path),
        };
        let stream = stream.map_err(|error| format!("connecting: {error}"))?;
        let seed = load.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number);
        let mut connection = Connection {
            common,
            stream,
            random: Rng::new(seed),
            noise: Rng::new(!seed),
            out: Vec::new(),
            input: vec![0; BUFFER_BYTES],
            filled: 0,
        };
        if let Some(password) = &load.password {
            let request = Request::of(&[b"AUTH".to_vec(), password.clone().into_bytes()]);
            request.put(&mut connection.out, &mut connection.noise, || 0);
            let mut refused = None;
            connection.exchange(1, |text| refused = Some(text))?;
            if let Some(text) = refused {
                return Err(format!("AUTH: {text}"));
            }
        }
        Ok(connection)
    }

    fn run(mut self, tally: &RefCell<Tally>) -> Result<(), String> {
        match self.common.load.rate {
            Some(rate) => self.run_open(tally, rate),
            None => self.run_closed(tally),
        }
    }

    fn run_closed(&mut self, tally: &RefCell<Tally>) -> Result<(), String> {
        let load = &self.common.load;
        let start = self.common.start_nanos.load(Ordering::Acquire);
        let end = load.seconds.map(|seconds| start + (seconds * SECOND_NANOS) as u64);
        loop {
            let began = time::now_nanos();
            if end.is_some_and(|end| began >= end) {
                return Ok(());
            }
            let count = self.common.take(load.pipeline);
            if count == 0 {
                return Ok(());
            }
            self.ask(tally, count, began)?;
            maybe_yield();
        }
    }

    fn run_open(&mut self, tally: &RefCell<Tally>, rate: f64) -> Result<(), String> {
        let load = &self.common.load;
        let start = self.common.start_nanos.load(Ordering::Acquire);
        let length = load.seconds.map_or(f64::INFINITY, |seconds| seconds * SECOND_NANOS);
        let give_up = length * 1.5 + SECOND_NANOS;
        let gap = SECOND_NANOS * load.pipeline as f64 * load.clients as f64 / rate;
        let mut due = 0.0;
        loop {
            // 1 - x is never 0.
            due += -(1.0 - self.random.next_f64()).ln() * gap;
            if due >= length {
                return Ok(());
            }
            let count = self.common.take(load.pipeline);
            if count == 0 {
                return Ok(());
            }
            let due_nanos = start + due as u64;
            let now = time::now_nanos();
            if (now - start) as f64 > give_up {
                tally.borrow_mut().unsent += count;
                continue;
            }
            if now < due_nanos {
                thread::sleep(Duration::from_nanos(due_nanos - now));
                let late = time::now_nanos().saturating_sub(due_nanos);
                tally.borrow_mut().lateness.add(late, 1);
            }
            self.ask(tally, count, due_nanos)?;
        }
    }

    /// Makes `count` requests that arrived at `arrival`, and waits for the replies.
    fn ask(&mut self, tally: &RefCell<Tally>, count: u64, arrival: u64) -> Result<(), String> {
        let common = self.common;
        for _ in 0..count {
            common.load.request.put(&mut self.out, &mut self.noise, || match common.load.is_fill {
                true => common.next_key.fetch_add(1, Ordering::Relaxed),
                false => drawn(&mut self.random, common.load.keys),
            });
        }
        self.exchange(count, |text| {
            let mut tally = tally.borrow_mut();
            tally.errors += 1;
            tally.first_error.get_or_insert(text);
        })?;
        let nanos = time::now_nanos().saturating_sub(arrival);
        tally.borrow_mut().latencies.add(nanos, count);
        Ok(())
    }

    /// Sends what is in `out` and receives `count` replies; errors among them go to `failed`.
    fn exchange(&mut self, count: u64, mut failed: impl FnMut(String)) -> Result<(), String> {
        let sent = self.stream.send_all(&self.out);
        sent.map_err(|error| format!("sending: {error}"))?;
        self.out.clear();
        let (mut replies, mut at) = (0, 0);
        while replies < count {
            if let Some(whole) = replies::first(&self.input[at..self.filled])? {
                if whole.is_error {
                    let text = &self.input[at..at + whole.bytes];
                    failed(String::from_utf8_lossy(text).trim_end().to_string());
                }
                at += whole.bytes;
                replies += 1;
                continue;
            }
            self.input.copy_within(at..self.filled, 0);
            self.filled -= at;
            at = 0;
            if self.filled == self.input.len() {
                if self.filled >= REPLY_BYTES_MAX {
                    return Err("a reply of the server is too large".to_string());
                }
                self.input.resize(2 * self.filled, 0);
            }
            let received = self.stream.receive(&mut self.input[self.filled..]);
            match received.map_err(|error| format!("receiving: {error}"))? {
                0 => return Err("the server has hung up".to_string()),
                bytes => self.filled += bytes,
            }
        }
        if at != self.filled {
            return Err("the server said more than was asked".to_string());
        }
        self.filled = 0;
        Ok(())
    }
}
