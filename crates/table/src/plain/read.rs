//! The rows of a plain table, cut into blocks where a key is stored in full.
//!
//! Thread safety: immutable. Suspends where the file is read.

use std::sync::Arc;

use pumice_base::coding::{Decoder, get_fixed32};
use pumice_base::narrow::to_usize;
use pumice_base::{Error, Result};
use pumice_env::RandomAccessFile;

use crate::formats::{PlainEncoding, RowTable};
use crate::plain::rows::{BadRow, RowDecoder};
use crate::plain::{ENCODING_TYPE, MAX_FILE_BYTES, check_extractor};
use crate::properties::TableProperties;
use crate::read::context::{Origin, TableReadContext};
use crate::translated::file::{OtherFile, read_exactly};
use crate::translated::image::{Image, Rows};
use crate::translated::layout::Layout;

/// Bytes read at a time when a table is opened.
const WINDOW_BYTES: u64 = 256 << 10;

/// The rows of one table.
struct PlainRows {
    file: Arc<dyn RandomAccessFile>,
    decoder: RowDecoder,
    /// Where in the file the blocks begin, and where the last one ends.
    places: Vec<u64>,
}

/// The image of a plain table.
///
/// # Errors
/// Corruption, naming the file; NotSupported and InvalidArgument where RocksDB does not open it;
/// I/O errors.
pub(crate) fn translate(context: &TableReadContext, file: OtherFile) -> Result<(Image, Origin)> {
    if file.len > MAX_FILE_BYTES {
        return Err(Error::not_supported(format!(
            "File size {} exceeds PlainTableReader max file size {MAX_FILE_BYTES}",
            file.len
        )));
    }
    if let Some(RowTable::Plain(format)) = &context.options.row_table {
        check_extractor(context, format, &file.properties.prefix_extractor)?;
    }
    let decoder = decoder(&file)?;
    let mut layout = Layout::new(context, &file);
    let places = cut(&file, &decoder, &mut layout)?;
    let rows = PlainRows { file: Arc::clone(&file.file), decoder, places };
    layout.finish(file, Box::new(rows))
}

fn decoder(file: &OtherFile) -> Result<RowDecoder> {
    let TableProperties { fixed_key_len, .. } = file.properties;
    let encoding = match file.properties.collected(ENCODING_TYPE).map(get_fixed32) {
        None | Some(Some(0)) => PlainEncoding::Plain,
        Some(Some(1)) => PlainEncoding::Prefix,
        Some(_) => return Err(file.bad("unknown encoding of keys")),
    };
    let len = u32::try_from(fixed_key_len)
        .map_err(|_| file.bad(format_args!("keys of {fixed_key_len} bytes")))?;
    Ok(RowDecoder::new(encoding, len))
}

/// Reads all rows into `layout`; where its blocks begin in the file, and where the last one ends.
fn cut(file: &OtherFile, decoder: &RowDecoder, layout: &mut Layout) -> Result<Vec<u64>> {
    let end = file.data_bytes()?;
    let (mut decoder, mut places) = (decoder.clone(), vec![0]);
    let (mut window, mut start, mut at) = (Vec::new(), 0, 0);
    while start + (at as u64) < end {
        let mut src = Decoder::new(&window[at..]);
        let row = match decoder.next(&mut src) {
            Ok(row) => row,
            Err(BadRow::Short) if start + (window.len() as u64) < end => {
                start += at as u64;
                // A row that does not fit needs a window that is larger.
                let wanted = ((window.len() - at) as u64 * 2).max(WINDOW_BYTES);
                window = read_exactly(&*file.file, start, to_usize(wanted.min(end - start)))?;
                at = 0;
                continue;
            }
            Err(bad) => return Err(file.bad(describe(bad, start + at as u64))),
        };
        let here = start + at as u64;
        if here == 0 && !row.is_whole {
            return Err(file.bad("Key for a prefix is not seekable"));
        }
        if here > 0 && row.is_whole && layout.is_full() {
            layout.end_block()?;
            places.push(here);
        }
        layout.add(file, decoder.key(), row.value)?;
        at = window.len() - src.rest().len();
    }
    if end > 0 {
        layout.end_block()?;
        places.push(end);
    }
    Ok(places)
}

fn describe(bad: BadRow, offset: u64) -> String {
    match bad {
        BadRow::Short => format!("row at offset {offset} that ends after the data"),
        BadRow::Damaged(what) => format!("{what}: row at offset {offset}"),
    }
}

impl Rows for PlainRows {
    fn visit(&self, block: usize, add: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let (start, end) = (self.places[block], self.places[block + 1]);
        let bytes = read_exactly(&*self.file, start, to_usize(end - start))?;
        let (mut src, mut decoder) = (Decoder::new(&bytes), self.decoder.clone());
        while !src.is_empty() {
            let at = end - src.rest().len() as u64;
            let row = decoder.next(&mut src).map_err(|bad| {
                let name = self.file.path().display();
                Error::corruption(format!("{} in {name}", describe(bad, at)))
            })?;
            add(decoder.key(), row.value);
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.places.capacity() * size_of::<u64>()
    }
}
