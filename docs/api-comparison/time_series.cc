// Measurements by sensor and time with a compaction filter, with RocksDB.

#include <endian.h>

#include <cstring>
#include <iomanip>
#include <memory>
#include <string>

#include "check.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/db.h"

using namespace rocksdb;

constexpr uint64_t kHour = 3600;
constexpr uint64_t kNow = 1800000000;

std::string Key(const std::string& sensor, uint64_t seconds) {
  seconds = htobe64(seconds);
  return sensor + "/" + std::string(reinterpret_cast<const char*>(&seconds), sizeof(seconds));
}

class AnHour : public CompactionFilter {
 public:
  const char* Name() const override { return "an hour"; }

  bool Filter(int, const Slice& key, const Slice&, std::string*, bool*) const override {
    uint64_t at;
    if (key.size() < sizeof(at)) return false;
    std::memcpy(&at, key.data() + key.size() - sizeof(at), sizeof(at));
    return be64toh(at) + kHour < kNow;
  }
};

Slice Bytes(const double& value) {
  return Slice(reinterpret_cast<const char*>(&value), sizeof(value));
}

size_t Count(DB* db) {
  size_t count = 0;
  std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) count++;
  Check(it->status());
  return count;
}

int main(int argc, char** argv) {
  AnHour an_hour;
  Options options;
  options.create_if_missing = true;
  options.compaction_filter = &an_hour;
  std::unique_ptr<DB> db;
  Check(DB::Open(options, argc > 1 ? argv[1] : "/tmp/rocksdb-time-series", &db));
  for (int minute = 0; minute < 180; minute++) {
    uint64_t at = kNow - 60 * minute;
    Check(db->Put(WriteOptions(), Key("attic", at), Bytes(20.0 + minute / 60.0)));
    Check(db->Put(WriteOptions(), Key("cellar", at), Bytes(12.0)));
  }

  double sum = 0;
  int count = 0;
  std::string end = Key("attic", kNow + 1);
  Slice upper_bound = end;
  ReadOptions range;
  range.iterate_upper_bound = &upper_bound;
  std::unique_ptr<Iterator> it(db->NewIterator(range));
  for (it->Seek(Key("attic", kNow - 600)); it->Valid(); it->Next()) {
    double value = 0;
    if (it->value().size() == sizeof(value)) {
      std::memcpy(&value, it->value().data(), sizeof(value));
    }
    sum += value;
    count++;
  }
  Check(it->status());
  it.reset();
  std::cout << "attic: " << count << " measurements, " << std::fixed << std::setprecision(2)
            << sum / count << " on average\n";

  std::cout << "before: " << Count(db.get()) << " measurements\n";
  Check(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  std::cout << "after: " << Count(db.get()) << " measurements\n";
  Check(db->Close());
}
