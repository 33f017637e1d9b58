//! Traces of calls, in RocksDB's format (version 0.2): what `--trace_file` writes, and what the
//! benchmark `replay` reads.
//!
//! ```text
//! record  = micros since 1970 (fixed64) ‖ type (1 byte) ‖ length (fixed32) ‖ payload
//! file    = Begin, calls, End; the payload of Begin is text, that of End is empty
//! payload = which fields there are (fixed64, a bit each) ‖ the fields, lowest bit first
//! ```
//!
//! Thread safety: a [`Trace`] takes calls from any thread; each is written in one piece. An error
//! of writing is kept and returned by `finish`.

use std::path::Path;

use super::engine::Result;
use pumice_base::coding::{Decoder, put_fixed32, put_fixed64, put_length_prefixed};
use pumice_env::{BufferedWriter, FileOptions, PosixFs, WriterOptions};
use pumice_port::sync::Mutex;
use pumice_port::time::wall_micros;

const MAGIC: &str = "feedcafedeadbeef";
const BEGIN: u8 = 1;
const END: u8 = 2;
const WRITE: u8 = 3;
const GET: u8 = 4;
const SEEK: u8 = 5;
const SEEK_FOR_PREV: u8 = 6;
const MULTI_GET: u8 = 13;

/// Bits of the payload's map.
mod field {
    pub const BATCH: u32 = 1;
    pub const GET_FAMILY: u32 = 2;
    pub const GET_KEY: u32 = 3;
    pub const SEEK_FAMILY: u32 = 4;
    pub const SEEK_KEY: u32 = 5;
    pub const LOWER: u32 = 6;
    pub const UPPER: u32 = 7;
    pub const KEYS: u32 = 8;
    pub const FAMILIES: u32 = 9;
    pub const KEY_LIST: u32 = 10;
}

/// A call of the database.
#[derive(Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// A batch in its wire format.
    Write(&'a [u8]),
    /// A get: id of the column family, key.
    Get(u32, &'a [u8]),
    /// A seek of an iterator.
    Seek {
        /// Id of the column family.
        family: u32,
        /// The target.
        key: &'a [u8],
        /// The iterator's bounds; empty for none.
        bounds: [&'a [u8]; 2],
        /// To the last key at or before the target.
        backwards: bool,
    },
    /// A multi-get: ids of column families and keys.
    MultiGet(Vec<(u32, &'a [u8])>),
}

fn begin_payload() -> String {
    format!(
        "{MAGIC}\tTrace Version: 0.2\tRocksDB Version: 10.10\tFormat: Timestamp OpType Payload\n"
    )
}

fn record(micros: u64, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(13 + payload.len());
    put_fixed64(&mut record, micros);
    record.push(kind);
    put_fixed32(&mut record, u32::try_from(payload.len()).unwrap_or(u32::MAX));
    record.extend_from_slice(payload);
    record
}

impl<'a> Call<'a> {
    fn encode(&self, micros: u64) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut fields = |bits: &[u32]| {
            put_fixed64(&mut payload, bits.iter().fold(0, |map, bit| map | 1 << bit));
        };
        let kind = match self {
            Call::Write(batch) => {
                fields(&[field::BATCH]);
                put_length_prefixed(&mut payload, batch);
                WRITE
            }
            Call::Get(family, key) => {
                fields(&[field::GET_FAMILY, field::GET_KEY]);
                put_fixed32(&mut payload, *family);
                put_length_prefixed(&mut payload, key);
                GET
            }
            Call::Seek { family, key, bounds, backwards } => {
                let bits = [field::LOWER, field::UPPER].into_iter().zip(bounds);
                let given = bits.filter(|(_, bound)| !bound.is_empty());
                let mut bits = vec![field::SEEK_FAMILY, field::SEEK_KEY];
                bits.extend(given.map(|(bit, _)| bit));
                fields(&bits);
                put_fixed32(&mut payload, *family);
                put_length_prefixed(&mut payload, key);
                let given = bounds.iter().filter(|bound| !bound.is_empty());
                given.for_each(|bound| put_length_prefixed(&mut payload, bound));
                if *backwards { SEEK_FOR_PREV } else { SEEK }
            }
            Call::MultiGet(keys) => {
                let (mut families, mut list) = (Vec::new(), Vec::new());
                for (family, key) in keys {
                    put_fixed32(&mut families, *family);
                    put_length_prefixed(&mut list, key);
                }
                fields(&[field::KEYS, field::FAMILIES, field::KEY_LIST]);
                put_fixed32(&mut payload, u32::try_from(keys.len()).unwrap_or(u32::MAX));
                put_length_prefixed(&mut payload, &families);
                put_length_prefixed(&mut payload, &list);
                MULTI_GET
            }
        };
        record(micros, kind, &payload)
    }

    /// The call of a record; None if it is malformed.
    fn decode(kind: u8, payload: &'a [u8]) -> Option<Self> {
        let mut input = Decoder::new(payload);
        let map = input.fixed64()?;
        let has = |bit: u32| map & 1 << bit != 0;
        match kind {
            WRITE => Some(Call::Write(input.length_prefixed()?)),
            GET => Some(Call::Get(input.fixed32()?, input.length_prefixed()?)),
            SEEK | SEEK_FOR_PREV => {
                let (family, key) = (input.fixed32()?, input.length_prefixed()?);
                let mut bounds: [&[u8]; 2] = [b"", b""];
                for (bound, bit) in bounds.iter_mut().zip([field::LOWER, field::UPPER]) {
                    if has(bit) {
                        *bound = input.length_prefixed()?;
                    }
                }
                Some(Call::Seek { family, key, bounds, backwards: kind == SEEK_FOR_PREV })
            }
            MULTI_GET => {
                let count = input.fixed32()?;
                let mut families = Decoder::new(input.length_prefixed()?);
                let mut list = Decoder::new(input.length_prefixed()?);
                let keys = (0..count).map(|_| Some((families.fixed32()?, list.length_prefixed()?)));
                Some(Call::MultiGet(keys.collect::<Option<_>>()?))
            }
            _ => None,
        }
    }
}

/// A trace that is being written.
pub struct Trace(Mutex<(BufferedWriter, Result<()>)>);

impl Trace {
    /// Begins the file at `path`; an existing file is replaced.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(path: &Path) -> Result<Self> {
        let file = PosixFs::shared().create(path, &FileOptions::default());
        let file =
            file.map_err(|error| format!("Encountered an error starting a trace, {error}"))?;
        let file = BufferedWriter::new(file, WriterOptions::new(1 << 20));
        let trace = Trace(Mutex::new((file, Ok(()))));
        trace.append(&record(wall_micros(), BEGIN, begin_payload().as_bytes()));
        Ok(trace)
    }

    /// Takes a call that is about to be made.
    pub fn note(&self, call: &Call<'_>) {
        self.append(&call.encode(wall_micros()));
    }

    fn append(&self, record: &[u8]) {
        let (file, failed) = &mut *self.0.lock();
        if failed.is_ok() {
            *failed = file.append(record).map_err(|error| error.to_string());
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error of writing it.
    pub fn finish(&self) -> Result<()> {
        self.append(&record(wall_micros(), END, b""));
        let (file, failed) = &mut *self.0.lock();
        failed.clone()?;
        file.flush().and_then(|()| file.close()).map_err(|error| error.to_string())
    }
}

/// A trace that was read.
pub struct Recorded {
    bytes: Vec<u8>,
    /// When it began: microseconds since 1970.
    began: u64,
    /// Where the first call is.
    first: usize,
}

/// A record: its time, type and payload, and where the next is. None: it is not all there.
fn next(bytes: &[u8], at: usize) -> Option<(u64, u8, &[u8], usize)> {
    let mut input = Decoder::new(bytes.get(at..)?);
    let (micros, kind, len) = (input.fixed64()?, input.u8()?, input.fixed32()?);
    let payload = input.bytes(len as usize)?;
    Some((micros, kind, payload, at + 13 + payload.len()))
}

impl Recorded {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// There is none, or it is not a trace of version 0.2.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = PosixFs::shared().read_file(path).map_err(|error| {
            format!(
                "Encountered an error creating a TraceReader from the trace file. Error: {error}"
            )
        })?;
        Self::of(bytes)
    }

    fn of(bytes: Vec<u8>) -> Result<Self> {
        let failed = |why: &str| format!("Prepare for replay failed. Error: {why}");
        let begin = next(&bytes, 0).filter(|(_, kind, ..)| *kind == BEGIN);
        let text = begin.and_then(|(_, _, text, _)| std::str::from_utf8(text).ok());
        let (Some((began, _, _, first)), Some(text)) = (begin, text) else {
            return Err(failed("Corruption: Corrupted trace file. Incorrect header."));
        };
        let mut words = text.split('\t');
        if words.next() != Some(MAGIC) {
            return Err(failed("Corruption: Corrupted trace file. Incorrect magic."));
        }
        let version = words.next().and_then(|word| word.strip_prefix("Trace Version: "));
        match version {
            Some("0.2") => Ok(Recorded { bytes, began, first }),
            _ => {
                let version = version.unwrap_or_default();
                Err(failed(&format!("Not implemented: trace version {version:?}")))
            }
        }
    }

    /// The calls, each with its time in microseconds after the beginning. A trace without its End
    /// record, because the process was killed, ends with its last whole record.
    pub fn calls(&self) -> impl Iterator<Item = Result<(u64, Call<'_>)>> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let (micros, kind, payload, end) = next(&self.bytes, at)?;
            if kind == END {
                return None;
            }
            let call = Call::decode(kind, payload).ok_or_else(|| {
                at = self.bytes.len();
                format!("Corruption: trace record of type {kind} is malformed")
            });
            at = at.max(end);
            Some(call.map(|call| (micros.saturating_sub(self.began), call)))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn calls() -> Vec<Call<'static>> {
        let seek = |bounds, backwards| Call::Seek { family: 3, key: b"k", bounds, backwards };
        vec![
            Call::Write(b"batch"),
            Call::Get(7, b"key"),
            seek([b"", b""], false),
            seek([b"a", b""], true),
            seek([b"", b"z"], false),
            seek([b"a", b"z"], true),
            Call::MultiGet(vec![(0, b"one"), (2, b"")]),
        ]
    }

    fn file() -> Vec<u8> {
        let mut bytes = record(100, BEGIN, begin_payload().as_bytes());
        for (micros, call) in (100..).zip(calls()) {
            bytes.extend(call.encode(micros));
        }
        bytes.extend(record(300, END, b""));
        bytes
    }

    #[pumice_test_macros::test]
    fn calls_come_back() {
        let recorded = Recorded::of(file()).unwrap();
        let read: Vec<_> = recorded.calls().map(Result::unwrap).collect();
        assert_eq!(read, (0..).zip(calls()).collect::<Vec<_>>());
    }

    #[pumice_test_macros::test]
    fn cut_and_damaged_files_end_in_words() {
        let whole = file();
        let head = begin_payload().len() + 13;
        for len in 0..whole.len() {
            match Recorded::of(whole[..len].to_vec()) {
                Ok(recorded) => assert!(len >= head && recorded.calls().all(|call| call.is_ok())),
                Err(error) => assert!(len < head && error.starts_with("Prepare for replay failed")),
            }
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            if let Ok(recorded) = Recorded::of(bytes) {
                assert!(recorded.calls().count() < 1000);
            }
        }
        // Another version has other payloads.
        let mut old = whole;
        let at = old.windows(3).position(|bytes| bytes == b"0.2").unwrap();
        old[at + 2] = b'1';
        let error = Recorded::of(old).err().unwrap();
        assert!(error.ends_with("Not implemented: trace version \"0.1\""), "{error}");
    }
}
