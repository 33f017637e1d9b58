//! Pages over HTTP: GET only, one request per connection, everything bounded.
//!
//! | what | bound |
//! |---|---|
//! | a request | 8 KiB, five seconds |
//! | connections at once | 32; a new one replaces the oldest |
//! | a wait for the client to take the page | five seconds |
//!
//! Each connection has its own fiber: a slow client delays no other, and is dropped when new ones
//! come.
//!
//! Thread safety: one fiber accepts; the others belong to their connections. Suspends.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use pumice_port::fiber::spawn_here;
use pumice_port::net::{Direction, Listener, Stream};
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::{thread, time};

use super::Server;

const REQUEST_BYTES: usize = 8 << 10;
const WAIT_NANOS: u64 = 5_000_000_000;
/// Connections at once.
pub const CONNECTIONS: usize = 32;

/// What is answered.
pub struct Page {
    /// Code and words.
    pub status: &'static str,
    /// Content type.
    pub kind: &'static str,
    /// Extra header lines, each with its line end.
    pub head: &'static str,
    /// What is shown.
    pub body: Cow<'static, str>,
}

impl Page {
    /// A page that is there.
    pub fn ok(kind: &'static str, body: impl Into<Cow<'static, str>>) -> Page {
        Page { status: "200 OK", kind, head: "", body: body.into() }
    }
    /// A path without a page; `hint` names one that has.
    pub fn missing(hint: &'static str) -> Page {
        let kind = "text/plain; charset=utf-8";
        Page { status: "404 Not Found", ..Page::ok(kind, hint) }
    }
}

/// Makes the page of a path; None stands for a request other than GET.
pub type Answer = fn(&Server, Option<&str>) -> Page;

/// The connections there are, by their order.
#[derive(Default)]
struct Open {
    streams: Mutex<BTreeMap<u64, Arc<Stream>>>,
    fewer: Condvar,
}

impl Open {
    /// Ends connections, the oldest first, until there are fewer than `most`, and enters one.
    fn enter(&self, number: u64, stream: &Arc<Stream>) {
        self.wait_for_fewer_than(CONNECTIONS);
        self.streams.lock().insert(number, Arc::clone(stream));
    }

    fn wait_for_fewer_than(&self, most: usize) {
        let mut streams = self.streams.lock();
        while streams.len() >= most {
            let surplus = streams.len() + 1 - most;
            for stream in streams.values().take(surplus) {
                // It may have gone already.
                stream.shutdown(Direction::Both).ok();
            }
            streams = self.fewer.wait(streams);
        }
    }
}

/// A connection's place, given up even if it panics.
struct Place(Arc<Open>, u64);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.streams.lock().remove(&self.1);
        self.0.fewer.notify_all();
    }
}

/// Answers until the server ends, and all connections have. On a fiber.
pub fn serve(server: &Arc<Server>, listener: &Listener, answer: Answer) {
    let open = Arc::new(Open::default());
    let mut next = 0;
    while !server.is_ending.is_set() {
        match listener.accept() {
            Ok(stream) => {
                let stream = Arc::new(stream);
                open.enter(next, &stream);
                let (place, server) = (Place(Arc::clone(&open), next), Arc::clone(server));
                // The server waits for its place; its panic ends only itself.
                drop(spawn_here("http", move || {
                    let _place = place;
                    serve_one(&server, &stream, answer);
                }));
                next += 1;
            }
            Err(_) if !server.is_ending.is_set() => {
                thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(_) => {}
        }
    }
    open.wait_for_fewer_than(1);
}

/// The first line of a request, if it arrives completely.
fn request_line(stream: &Stream) -> Option<String> {
    let end = time::now_nanos() + WAIT_NANOS;
    let (mut bytes, mut filled) = (vec![0; REQUEST_BYTES], 0);
    while !bytes[..filled].windows(4).any(|four| four == b"\r\n\r\n") {
        let left = end.saturating_sub(time::now_nanos());
        stream.set_receive_timeout(Some(left));
        match stream.receive(&mut bytes[filled..]) {
            Ok(n) if n > 0 && left > 0 => filled += n,
            _ => return None,
        }
    }
    let text = String::from_utf8_lossy(&bytes[..filled]);
    text.lines().next().map(str::to_string)
}

fn serve_one(server: &Server, stream: &Stream, answer: Answer) {
    let Some(line) = request_line(stream) else { return };
    let path = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let path = path.and_then(|path| path.split('?').next());
    let Page { status, kind, head, body } = answer(server, path);
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{head}\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.set_send_timeout(Some(WAIT_NANOS));
    // The client may have gone.
    stream.send_all(reply.as_bytes()).ok();
}
