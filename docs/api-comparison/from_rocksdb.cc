// Opening a database as its OPTIONS file says, with RocksDB.

#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "rocksdb/db.h"
#include "rocksdb/utilities/options_util.h"

using namespace rocksdb;

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cout << "usage: from_rocksdb DIRECTORY\n";
    return 0;
  }
  std::string directory = argv[1];
  std::vector<std::string> names;
  Check(DB::ListColumnFamilies(DBOptions(), directory, &names));
  std::cout << "column families:";
  for (const std::string& name : names) std::cout << " " << name;
  std::cout << "\n";

  DBOptions options;
  std::vector<ColumnFamilyDescriptor> families;
  Check(LoadLatestOptions(ConfigOptions(), directory, &options, &families));
  std::unique_ptr<DB> db;
  std::vector<ColumnFamilyHandle*> handles;
  Check(DB::OpenForReadOnly(options, directory, families, &handles, &db));
  for (ColumnFamilyHandle* handle : handles) {
    size_t keys = 0;
    std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions(), handle));
    for (it->SeekToFirst(); it->Valid(); it->Next()) keys++;
    Check(it->status());
    std::cout << handle->GetName() << ": " << keys << " keys\n";
  }
  for (ColumnFamilyHandle* handle : handles) Check(db->DestroyColumnFamilyHandle(handle));
  handles.clear();
  db.reset();

  Check(DB::Open(options, directory, families, &handles, &db));
  Check(db->Put(WriteOptions(), "moved", "yes"));
  Check(db->Flush(FlushOptions()));
  std::string value;
  Check(db->Get(ReadOptions(), "moved", &value));
  std::cout << "moved: " << value.size() << "\n";
  for (ColumnFamilyHandle* handle : handles) Check(db->DestroyColumnFamilyHandle(handle));
  Check(db->Close());
}
