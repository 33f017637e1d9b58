//! SstFileWriter.

use std::path::Path;

use pumice::{Comparator, Error, Result, SstFileWriter};

use crate::ffi::from::{Out, Text, Unused};
use crate::ffi::generated::rocksdb_envoptions_t;
use crate::ffi::into::New;
use crate::ffi::macros::c_api;
use crate::ffi::types::{Options, Order, Writer};

fn writer(options: &Options, order: Option<Comparator>) -> Writer {
    let made = options.values.to_engine().and_then(|mut engine| {
        if let Some(order) = order {
            engine.cf.comparator = order;
        }
        SstFileWriter::new(&engine)
    });
    Writer { writer: made, file_size: 0 }
}

impl Writer {
    pub(super) fn get(&mut self) -> Result<&mut SstFileWriter> {
        self.writer.as_mut().map_err(|error| Error::clone(error))
    }

    fn open(&mut self, path: &Path) -> Result<()> {
        self.file_size = 0;
        self.get()?.open(path)
    }

    fn finish(&mut self) -> Result<()> {
        let info = self.get()?.finish()?;
        self.file_size = info.file_size;
        Ok(())
    }

    fn size(&self) -> u64 {
        let present = self.writer.as_ref().map_or(0, SstFileWriter::file_size);
        present.max(self.file_size)
    }
}

c_api! {
    fn rocksdb_sstfilewriter_create(
        _env: Unused<rocksdb_envoptions_t>, options: &Options
    ) -> New<Writer> {
        New(writer(options, None))
    }

    fn rocksdb_sstfilewriter_create_with_comparator(
        _env: Unused<rocksdb_envoptions_t>, options: &Options, comparator: Option<&Order>
    ) -> New<Writer> {
        New(writer(options, comparator.map(|order| order.0.clone())))
    }

    fn rocksdb_sstfilewriter_open(writer: &mut Writer, name: Text<'_>, errptr: Fail) {
        writer.open(&name.path())
    }

    fn rocksdb_sstfilewriter_add(writer: &mut Writer, key: Bytes, value: Bytes, errptr: Fail) {
        writer.get()?.put(key, value)
    }

    fn rocksdb_sstfilewriter_put(writer: &mut Writer, key: Bytes, value: Bytes, errptr: Fail) {
        writer.get()?.put(key, value)
    }

    fn rocksdb_sstfilewriter_merge(writer: &mut Writer, key: Bytes, value: Bytes, errptr: Fail) {
        writer.get()?.merge(key, value)
    }

    fn rocksdb_sstfilewriter_delete(writer: &mut Writer, key: Bytes, errptr: Fail) {
        writer.get()?.delete(key)
    }

    fn rocksdb_sstfilewriter_delete_range(
        writer: &mut Writer, begin: Bytes, end: Bytes, errptr: Fail
    ) {
        writer.get()?.delete_range(begin, end)
    }

    fn rocksdb_sstfilewriter_finish(writer: &mut Writer, errptr: Fail) {
        writer.finish()
    }

    fn rocksdb_sstfilewriter_file_size(writer: &Writer, size: Out<'_, u64>) {
        let mut size = size;
        size.set(writer.size());
    }
}
