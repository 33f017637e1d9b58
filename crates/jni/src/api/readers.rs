//! Table files that are read by themselves. Their iterators are those of `cursors`.

use pumice::{Error, SstFileReader};
use pumice_binding::cursor::Iterator;
use pumice_binding::reports::Properties;

use crate::api::cursors::scan;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::into::New;
use crate::maps::table_properties;
use crate::objects::{Options, ReadOptions, Reader};

impl Reader {
    fn get(&mut self) -> pumice::Result<&mut SstFileReader> {
        self.0.as_mut().map_err(|error| Error::clone(error))
    }

    fn open(&self) -> pumice::Result<&SstFileReader> {
        self.0.as_ref().map_err(Error::clone)
    }
}

/// Java: SstFileReader.newSstFileReader
pub fn new(_env: Env<'_>, options: &Options) -> Result<New<Reader>> {
    let reader = options.values.to_engine().and_then(|engine| SstFileReader::new(&engine));
    Ok(New(Reader(reader)))
}

/// Java: SstFileReader.open
pub fn open(_env: Env<'_>, reader: &mut Reader, path: String) -> Result<()> {
    Ok(reader.get()?.open(path)?)
}

/// Java: SstFileReader.newIterator
pub fn iterator(
    _env: Env<'_>,
    reader: &Reader,
    options: Option<&ReadOptions>,
) -> Result<New<Iterator>> {
    let cursor = scan(options).and_then(|options| reader.open()?.cursor(&options));
    Ok(New(cursor.map_or_else(Iterator::refused, Iterator::over)))
}

/// Java: SstFileReaderIterator.refresh0 0
/// Java: SstFileReaderIterator.refresh1 0
pub fn refresh(_env: Env<'_>, _iterator: &Iterator) -> Result<()> {
    // A file does not change.
    Err(Error::not_supported("Creating renew iterator is not allowed.").into())
}

/// Java: SstFileReader.verifyChecksum
pub fn verify(_env: Env<'_>, reader: &Reader) -> Result<()> {
    Ok(reader.open()?.verify_checksum()?)
}

/// Java: SstFileReader.getTableProperties
pub fn properties<'a>(env: Env<'a>, reader: &Reader) -> Result<Object<'a>> {
    table_properties(env, &Properties::new(reader.open()?.table_properties()?))
}
