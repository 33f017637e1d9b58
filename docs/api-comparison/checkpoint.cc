// A backup by checkpoint, with RocksDB.

#include "rocksdb/utilities/checkpoint.h"

#include <filesystem>
#include <memory>
#include <string>

#include "check.h"
#include "rocksdb/db.h"

using namespace rocksdb;

size_t Count(DB* db) {
  size_t count = 0;
  std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) count++;
  Check(it->status());
  return count;
}

int main(int argc, char** argv) {
  std::string directory = argc > 1 ? argv[1] : "/tmp/rocksdb-checkpoint";
  std::string backup = directory + "/backup";
  std::filesystem::create_directories(directory);
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  Check(DB::Open(options, directory + "/db", &db));
  for (int n = 0; n < 1000; n++) {
    Check(db->Put(WriteOptions(), "key" + std::to_string(n), "first"));
  }
  Checkpoint* made;
  Check(Checkpoint::Create(db.get(), &made));
  std::unique_ptr<Checkpoint> checkpoint(made);
  Check(checkpoint->CreateCheckpoint(backup));
  Check(db->DeleteRange(WriteOptions(), db->DefaultColumnFamily(), "key0", "key9"));
  Check(db->Put(WriteOptions(), "key", "second"));
  std::cout << "the database: " << Count(db.get()) << " keys\n";

  std::unique_ptr<DB> then;
  Check(DB::OpenForReadOnly(Options(), backup, &then));
  std::cout << "the backup: " << Count(then.get()) << " keys\n";
  then.reset();
  Check(db->Close());
  Check(DestroyDB(backup, Options()));
}
