// A budget of memory, processors and device, with RocksDB. Nothing derives the options from it:
// they are set one by one.

#include <endian.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "check.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/table.h"
#include "rocksdb/write_buffer_manager.h"

using namespace rocksdb;

std::string Key(uint32_t n) {
  n = htobe32(n);
  return std::string(reinterpret_cast<const char*>(&n), sizeof(n));
}

int main(int argc, char** argv) {
  constexpr size_t kMemoryBytes = 256 << 20;
  std::shared_ptr<Cache> cache = NewLRUCache(kMemoryBytes);
  BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  Options options;
  options.create_if_missing = true;
  options.table_factory.reset(NewBlockBasedTableFactory(table));
  options.write_buffer_manager = std::make_shared<WriteBufferManager>(kMemoryBytes / 4, cache);
  options.write_buffer_size = kMemoryBytes / 16;
  options.max_bytes_for_level_base = 4 * options.write_buffer_size;
  options.IncreaseParallelism(std::max(2u, std::thread::hardware_concurrency() / 2));
  options.rate_limiter.reset(NewGenericRateLimiter(100 << 20));
  options.ttl = 86400;
  std::string text;
  std::unordered_map<std::string, std::string> values;
  Check(GetStringFromColumnFamilyOptions(ConfigOptions(), options, &text));
  Check(StringToMap(text, &values));
  for (const char* name : {"write_buffer_size", "max_bytes_for_level_base"}) {
    std::cout << name << " = " << values[name] << "\n";
  }
  std::cout << "rate_limiter = " << options.rate_limiter->GetBytesPerSecond() << "\n";
  std::cout << "table_factory = " << options.table_factory->Name() << "\n";
  std::unique_ptr<DB> db;
  Check(DB::Open(options, argc > 1 ? argv[1] : "/tmp/rocksdb-tuning", &db));
  for (uint32_t n = 0; n < 10000; n++) {
    Check(db->Put(WriteOptions(), Key(n), std::string(100, '\0')));
  }
  Check(db->Flush(FlushOptions()));
  Check(db->SetOptions({{"level0_file_num_compaction_trigger", "8"}}));
  size_t keys = 0;
  std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) keys++;
  Check(it->status());
  it.reset();
  std::cout << keys << " keys\n";
  std::cout << "memtables may take " << options.write_buffer_manager->buffer_size() << " bytes\n";
  Check(db->Close());
}
