//! Replies: a handler's output, as bytes of RESP2 or RESP3.
//!
//! RESP2 has no maps, sets, doubles or nulls of their own: they become arrays, bulk strings and
//! null bulk strings, as Redis writes them. A reply cannot fail; it grows with what is put into it.
//!
//! Thread safety: plain data.

use std::fmt;
use std::sync::Arc;

use super::number;

/// Replies ask their meter once per this many bytes.
const METERED: usize = 64 << 10;
/// A buffer that is larger when it is cleared shrinks, and to what.
const KEPT_BYTES: usize = 16 << 10;
const KEPT_BYTES_AFTER: usize = 1 << 10;

/// The meter that is asked while replies grow.
pub trait Meter: Send + Sync {
    /// Asks for this many more bytes; false if they are refused. Does not suspend.
    fn grow(&self, bytes: usize) -> bool;
}

/// Bytes of replies, one after another.
pub struct Reply {
    bytes: Vec<u8>,
    /// The limit in bytes; output beyond it is dropped.
    bytes_max: usize,
    /// The size at which to check again: with the meter, or against `bytes_max`.
    bytes_asked: usize,
    meter: Option<Arc<dyn Meter>>,
    is_full: bool,
    /// The client understands RESP3.
    pub resp3: bool,
}

impl Default for Reply {
    fn default() -> Reply {
        Reply {
            bytes: Vec::new(),
            bytes_max: usize::MAX,
            bytes_asked: usize::MAX,
            meter: None,
            is_full: false,
            resp3: false,
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.bytes))
    }
}

impl Reply {
    /// No replies yet, in RESP2.
    pub fn new() -> Reply {
        Reply::default()
    }
    /// No replies yet; `meter` is asked for bytes beyond a small allowance.
    pub fn metered(meter: Arc<dyn Meter>) -> Reply {
        Reply { bytes_asked: METERED, meter: Some(meter), ..Reply::default() }
    }
    /// The output so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Takes the bytes out and starts empty again.
    pub fn take(&mut self) -> Vec<u8> {
        self.ask_anew();
        std::mem::take(&mut self.bytes)
    }
    /// The meter no longer counts what it granted.
    fn ask_anew(&mut self) {
        self.bytes_asked = match self.meter {
            Some(_) => self.bytes_max.min(METERED),
            None => self.bytes_max,
        };
    }
    /// From now on it takes this many bytes and drops the rest: then it is full.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.ask_anew();
    }
    /// Bytes that it can still take.
    pub fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes.len())
    }
    /// Output was dropped since the last [`Reply::truncate`] or [`Reply::clear`].
    pub fn is_full(&self) -> bool {
        self.is_full
    }
    /// Inserts the header of an array of `len` replies before the output after `at` bytes.
    pub fn array_before(&mut self, at: usize, len: usize) {
        let elements = self.bytes.split_off(at);
        self.array(len);
        self.add(&elements);
    }
    fn add(&mut self, bytes: &[u8]) {
        let len = self.bytes.len() + bytes.len();
        if len > self.bytes_asked && !self.may_have(len) {
            self.is_full = true;
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }
    #[cold]
    fn may_have(&mut self, len: usize) -> bool {
        let upto = len.saturating_add(METERED).min(self.bytes_max);
        let may = len <= self.bytes_max
            && self.meter.as_ref().is_none_or(|meter| meter.grow(upto - self.bytes_asked));
        if may {
            self.bytes_asked = upto;
        }
        may
    }
    /// Drops the output after `bytes` bytes.
    pub fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        self.is_full = false;
    }
    /// Drops everything; frees a large buffer.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.is_full = false;
        self.ask_anew();
        // A connection has one, and a large reply seldom follows another.
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes.shrink_to(KEPT_BYTES_AFTER);
        }
    }
    /// Bytes that it holds on to.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
    /// Bytes of the output so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// There is no output.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn head(&mut self, kind: u8, n: i64) {
        self.bytes.push(kind);
        number::push_integer(&mut self.bytes, n);
        self.add(b"\r\n");
    }
    /// `+text`.
    pub fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.add(text.as_bytes());
        self.add(b"\r\n");
    }
    /// `+OK`.
    pub fn ok(&mut self) {
        self.add(b"+OK\r\n");
    }
    /// `-text`, which begins with its code. Line ends in it become blanks. It is never dropped.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.bytes.push(b'-');
        let plain = text.as_ref().iter().map(|&b| if b == b'\r' || b == b'\n' { b' ' } else { b });
        self.bytes.extend(plain);
        self.bytes.extend_from_slice(b"\r\n");
    }
    /// An integer.
    pub fn integer(&mut self, n: i64) {
        self.head(b':', n);
    }
    /// A count, which always fits.
    pub fn count(&mut self, n: usize) {
        self.integer(n as i64);
    }
    /// A string of bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len() as i64);
        self.add(bytes);
        self.add(b"\r\n");
    }
    /// The bytes, or a null bulk string for None.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }
    /// A null in place of a string.
    pub fn null(&mut self) {
        self.add(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }
    /// A null in place of an array.
    pub fn null_array(&mut self) {
        self.add(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }
    /// `len` replies follow.
    pub fn array(&mut self, len: usize) {
        self.head(b'*', len as i64);
    }
    /// `len` pairs of replies follow.
    pub fn map(&mut self, len: usize) {
        if self.resp3 { self.head(b'%', len as i64) } else { self.array(len * 2) }
    }
    /// A set: `len` different replies follow, in no particular order.
    pub fn set(&mut self, len: usize) {
        self.head(if self.resp3 { b'~' } else { b'*' }, len as i64);
    }
    /// A push message: `len` replies follow.
    pub fn push(&mut self, len: usize) {
        self.head(if self.resp3 { b'>' } else { b'*' }, len as i64);
    }
    /// A floating-point number.
    pub fn double(&mut self, value: f64) {
        let text = number::double_text(value);
        if self.resp3 {
            self.bytes.push(b',');
            self.add(text.as_bytes());
            self.add(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }
    /// Text to be shown to people.
    pub fn verbatim(&mut self, text: &str) {
        if self.resp3 {
            self.head(b'=', text.len() as i64 + 4);
            self.add(b"txt:");
            self.add(text.as_bytes());
            self.add(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }
    /// Replies made elsewhere.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.add(bytes);
    }
    /// Takes out the replies after `at`, to be appended again after a header.
    pub fn split_off(&mut self, at: usize) -> Vec<u8> {
        self.bytes.split_off(at)
    }
}
