// Loading sorted data by a table file, with RocksDB.

#include <endian.h>

#include <memory>
#include <string>

#include "check.h"
#include "rocksdb/db.h"
#include "rocksdb/sst_file_writer.h"

using namespace rocksdb;

constexpr uint32_t kRows = 100000;

std::string Key(uint32_t row) {
  row = htobe32(row);
  return std::string(reinterpret_cast<const char*>(&row), sizeof(row));
}

int main(int argc, char** argv) {
  std::string directory = argc > 1 ? argv[1] : "/tmp/rocksdb-bulk-load";
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  Check(DB::Open(options, directory, &db));
  Check(db->Put(WriteOptions(), Key(7), "written before"));

  std::string file = directory + "/rows.sst";
  SstFileWriter writer(EnvOptions(), options);
  Check(writer.Open(file));
  for (uint32_t row = 0; row < kRows; row++) {
    Check(writer.Put(Key(row), "row " + std::to_string(row)));
  }
  ExternalSstFileInfo made;
  Check(writer.Finish(&made));
  std::cout << made.num_entries << " entries in " << (made.file_size > 0 ? "a file" : "-") << "\n";

  IngestExternalFileOptions moved;
  moved.move_files = true;
  Check(db->IngestExternalFile({file}, moved));
  std::string row;
  Check(db->Get(ReadOptions(), Key(7), &row));
  std::cout << "row 7 is " << row << "\n";
  size_t rows = 0;
  std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) rows++;
  Check(it->status());
  it.reset();
  std::cout << rows << " rows\n";
  Check(db->Close());
}
