//! A blob file as text, in the words of RocksDB's tools.
//!
//! Records are read one after the other, so that a file without a footer, or with a damaged end,
//! shows what is before that. Unlike RocksDB's tool this one also checks each blob against its CRC.
//!
//! Memory: one record, which is no longer than the file.

use std::path::Path;

use super::Failure;
use super::open::text as failure;
use crate::output::Output;
use crate::text::{Format, show_plain};
use pumice_base::{Error, Result};
use pumice_compress::{CompressionType, Decompressor};
use pumice_env::{FileSystem, RandomAccessFile};
use pumice_table::blob::format::{
    FOOTER_LEN, FileHeader, HEADER_LEN, RECORD_HEADER_LEN, RecordHeader, VERSION, decode_footer,
};

/// The largest value that a record may hold.
const MAX_VALUE_BYTES: usize = u32::MAX as usize;

/// What all records of a file sum up to.
#[derive(Default)]
struct Totals {
    records: u64,
    key_bytes: u64,
    blob_bytes: u64,
    raw_bytes: u64,
}

/// Prints the file at `path`: header, footer, records, totals. With `uncompressed` values are
/// decompressed.
///
/// # Errors
/// What is damaged, after everything before it was printed; I/O.
pub fn dump_blob_file(
    fs: &dyn FileSystem,
    path: &Path,
    format: Format,
    uncompressed: bool,
    out: &mut Output,
) -> std::result::Result<(), Failure> {
    let file = fs.open_random(path).map_err(failure)?;
    let header = read(&*file, 0, HEADER_LEN).and_then(|bytes| FileHeader::decode(&bytes));
    let header = header.map_err(failure)?;
    out.text(&format!(
        "Blob log header:\n  Version          : {VERSION}\n  Column Family ID : {}\n  \
         Compression      : {}\n  Expiration range : nil\n",
        header.family,
        header.compression.option_name(),
    ));
    let records_end = file.len().saturating_sub(FOOTER_LEN as u64);
    let footer = read(&*file, records_end, FOOTER_LEN).and_then(|bytes| decode_footer(&bytes));
    let end = match footer {
        Ok(blobs) => {
            out.text(&format!(
                "Blob log footer:\n  Blob count       : {blobs}\n  Expiration Range : nil\n"
            ));
            records_end
        }
        Err(_) => {
            out.text("No blob log footer.\n");
            file.len()
        }
    };
    let mut dump = Dump {
        file: &*file,
        codec: header.compression,
        format,
        uncompressed,
        decompressor: Decompressor::new(),
        totals: Totals::default(),
    };
    let (mut at, mut done) = (HEADER_LEN as u64, Ok(()));
    while at < end && done.is_ok() {
        match dump.record(at, out) {
            Ok(next) => at = next,
            Err(error) => done = Err(error),
        }
    }
    dump.print_totals(out);
    done.map_err(failure)
}

struct Dump<'a> {
    file: &'a dyn RandomAccessFile,
    codec: CompressionType,
    format: Format,
    uncompressed: bool,
    decompressor: Decompressor,
    totals: Totals,
}

impl Dump<'_> {
    /// Prints the record at `at`; returns where the next one begins.
    fn record(&mut self, at: u64, out: &mut Output) -> Result<u64> {
        out.text(&format!("Read record with offset 0x{at:x} ({at}):\n"));
        let header = RecordHeader::decode(&read(self.file, at, RECORD_HEADER_LEN)?)?;
        out.text(&format!(
            "  key size   : {}\n  value size : {}\n  expiration : {}\n",
            header.key_len, header.value_len, header.expiration
        ));
        let at = at + RECORD_HEADER_LEN as u64;
        let lengths = header.key_len.checked_add(header.value_len);
        let next = lengths.and_then(|len| at.checked_add(len));
        let (Some(next), Ok(len)) = (next, usize::try_from(lengths.unwrap_or(u64::MAX))) else {
            return Err(cut());
        };
        let bytes = read(self.file, at, len)?;
        let (key, blob) = bytes.split_at(len - header.value_len as usize);
        line("  key        : ", key, self.format.key_hex, out);
        let mut raw = Vec::new();
        if self.codec != CompressionType::None {
            self.decompressor.decompress(self.codec, blob, &mut raw, MAX_VALUE_BYTES)?;
            self.totals.raw_bytes += raw.len() as u64;
        }
        match (self.uncompressed, self.codec) {
            (false, _) => line("  blob       : ", blob, self.format.value_hex, out),
            (true, CompressionType::None) => {
                line("  raw blob   : ", blob, self.format.value_hex, out);
            }
            (true, _) => line("  raw blob   : ", &raw, self.format.value_hex, out),
        }
        header.check_blob(key, blob)?;
        self.totals.records += 1;
        self.totals.key_bytes += header.key_len;
        self.totals.blob_bytes += header.value_len;
        Ok(next)
    }

    fn print_totals(&self, out: &mut Output) {
        let totals = &self.totals;
        out.text(&format!(
            "Summary:\n  total records: {}\n  total key size: {}\n  total blob size: {}\n",
            totals.records, totals.key_bytes, totals.blob_bytes
        ));
        if self.codec != CompressionType::None {
            out.text(&format!("  total raw blob size: {}\n", totals.raw_bytes));
        }
    }
}

/// One line. Plain bytes end at the first zero, as RocksDB's tool prints them.
fn line(name: &str, bytes: &[u8], hex: bool, out: &mut Output) {
    let plain = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    out.line(&[name.as_bytes(), &show_plain(if hex { bytes } else { plain }, hex)]);
}

/// `len` bytes of `file` from `offset`, which are taken only if the file has them.
fn read(file: &dyn RandomAccessFile, offset: u64, len: usize) -> Result<Vec<u8>> {
    if offset.checked_add(len as u64).is_none_or(|end| end > file.len()) {
        return Err(cut());
    }
    let mut bytes = vec![0; len];
    match file.read_at(offset, &mut bytes)? {
        read if read == len => Ok(bytes),
        _ => Err(cut()),
    }
}

#[cold]
fn cut() -> Error {
    Error::corruption("Reach the end of the file unexpectedly.")
}
