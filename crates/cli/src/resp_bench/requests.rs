//! The requests, with new random keys each time.
//!
//! A request is its bytes in RESP and the positions in them of twelve-digit numbers.
//!
//! Thread safety: a [`Request`] is shared; each connection has its own random numbers.

use std::ops::Range;

use pumice_base::random::Rng;

/// What redis-benchmark replaces in a command.
const HOLE: &[u8] = b"__rand_int__";
/// The names of `-t`, those first that make what others read.
pub const TESTS: &[&str] = &[
    "fill", "ping", "set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop",
    "zadd", "zpopmin", "mset", "mget",
];
/// Keys of MSET and MGET.
const SEVERAL: usize = 10;

/// A request.
pub struct Request {
    bytes: Vec<u8>,
    /// Where twelve digits go.
    holes: Vec<usize>,
    /// Where values are, if they are drawn again each time.
    noise: Vec<Range<usize>>,
}

impl Request {
    /// The command of these words.
    pub fn of(words: &[Vec<u8>]) -> Request {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        let mut holes = Vec::new();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            let start = bytes.len();
            let found = word.windows(HOLE.len()).enumerate().filter(|(_, w)| *w == HOLE);
            holes.extend(found.map(|(at, _)| start + at));
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        Request { bytes, holes, noise: Vec::new() }
    }

    /// The same with values (its words that consist of `x`) that are drawn for each request.
    pub fn with_random_data(mut self, value_bytes: usize) -> Request {
        let word = format!("\r\n{}\r\n", "x".repeat(value_bytes));
        let found = self.bytes.windows(word.len()).enumerate();
        let found = found.filter(|(_, bytes)| *bytes == word.as_bytes());
        self.noise = found.map(|(at, _)| at + 2..at + 2 + value_bytes).collect();
        self
    }

    /// The request of a test, with values of the given size.
    ///
    /// # Errors
    /// There is no such test.
    pub fn of_test(name: &str, value_bytes: usize) -> Result<Request, String> {
        let value = "x".repeat(value_bytes);
        let text = match name {
            "ping" => "PING".to_string(),
            "fill" | "set" => format!("SET key:__rand_int__ {value}"),
            "get" => "GET key:__rand_int__".to_string(),
            "incr" => "INCR counter:__rand_int__".to_string(),
            "lpush" => format!("LPUSH mylist {value}"),
            "rpush" => format!("RPUSH mylist {value}"),
            "lpop" => "LPOP mylist".to_string(),
            "rpop" => "RPOP mylist".to_string(),
            "sadd" => "SADD myset element:__rand_int__".to_string(),
            "hset" => format!("HSET myhash element:__rand_int__ {value}"),
            "spop" => "SPOP myset".to_string(),
            "zadd" => "ZADD myzset 0 element:__rand_int__".to_string(),
            "zpopmin" => "ZPOPMIN myzset".to_string(),
            "mset" => format!("MSET{}", format!(" key:__rand_int__ {value}").repeat(SEVERAL)),
            "mget" => format!("MGET{}", " key:__rand_int__".repeat(SEVERAL)),
            other => return Err(format!("there is no test '{other}': {}", TESTS.join(", "))),
        };
        let words: Vec<_> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        Ok(Request::of(&words))
    }

    /// Appends it to `into`, with numbers that `draw` gives and data from `noise`.
    pub fn put(&self, into: &mut Vec<u8>, noise: &mut Rng, mut draw: impl FnMut() -> u64) {
        let start = into.len();
        into.extend_from_slice(&self.bytes);
        for value in &self.noise {
            for chunk in into[start + value.start..start + value.end].chunks_mut(8) {
                chunk.copy_from_slice(&noise.next_u64().to_le_bytes()[..chunk.len()]);
            }
        }
        for hole in &self.holes {
            let mut number = draw();
            for digit in into[start + hole..][..HOLE.len()].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
    }
}

/// Random numbers below `keys`; always 0 if that is 0.
pub fn drawn(random: &mut Rng, keys: u64) -> u64 {
    if keys == 0 { 0 } else { random.uniform(keys) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Plain #[test]: nothing here can wait.
    #[test]
    fn random_data_are_other_data_each_time() {
        let request = Request::of_test("set", 100).unwrap().with_random_data(100);
        let (mut noise, mut bytes) = (Rng::new(1), Vec::new());
        (0..2).for_each(|_| request.put(&mut bytes, &mut noise, || 7));
        let (one, two) = bytes.split_at(bytes.len() / 2);
        let head = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$100\r\n";
        assert!(one.starts_with(head) && two.starts_with(head));
        assert!(one.ends_with(b"\r\n") && one.len() == head.len() + 102);
        let values = [one, two].map(|all| &all[head.len()..head.len() + 100]);
        assert_ne!(values[0], values[1]);
        assert!(values[0].iter().filter(|byte| **byte == b'x').count() < 10);
        // Where there are no values nothing is drawn.
        bytes.clear();
        let get = Request::of_test("get", 100).unwrap().with_random_data(100);
        get.put(&mut bytes, &mut noise, || 7);
        assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n");
    }

    // Plain #[test]: nothing here can wait.
    #[test]
    fn requests_have_numbers_in_their_keys() {
        let request = Request::of_test("mset", 3).unwrap();
        let (mut bytes, mut next) = (Vec::new(), 98);
        request.put(&mut bytes, &mut Rng::new(1), || {
            next += 1;
            next
        });
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with(
            "*21\r\n$4\r\nMSET\r\n$16\r\nkey:000000000099\r\n$3\r\nxxx\r\n$16\r\nkey:000000000100"
        ));
        assert_eq!(text.matches("key:").count(), 10);
        for test in TESTS {
            assert!(Request::of_test(test, 10).is_ok(), "{test}");
        }
        assert!(Request::of_test("nonsense", 1).is_err());
        assert!((0..100).all(|seed| drawn(&mut Rng::new(seed), 5) < 5));
    }
}
