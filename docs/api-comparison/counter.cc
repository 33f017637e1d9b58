// Counters raised by merges, with RocksDB.

#include <charconv>
#include <memory>
#include <string>

#include "check.h"
#include "rocksdb/db.h"
#include "rocksdb/merge_operator.h"

using namespace rocksdb;

bool Parse(const Slice& text, uint64_t* number) {
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

class Add : public AssociativeMergeOperator {
 public:
  const char* Name() const override { return "add"; }

  bool Merge(const Slice&, const Slice* existing, const Slice& operand, std::string* result,
             Logger*) const override {
    uint64_t start = 0, by, sum;
    if ((existing != nullptr && !Parse(*existing, &start)) || !Parse(operand, &by) ||
        __builtin_add_overflow(start, by, &sum)) {
      return false;
    }
    *result = std::to_string(sum);
    return true;
  }
};

int main(int argc, char** argv) {
  Options options;
  options.create_if_missing = true;
  options.merge_operator = std::make_shared<Add>();
  std::unique_ptr<DB> db;
  Check(DB::Open(options, argc > 1 ? argv[1] : "/tmp/rocksdb-counter", &db));
  for (const char* page : {"/", "/about", "/", "/prices", "/"}) {
    Check(db->Merge(WriteOptions(), page, "1"));
  }
  Check(db->Merge(WriteOptions(), "/about", "10"));
  std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    std::cout << it->key().ToStringView() << " " << it->value().ToStringView() << "\n";
  }
  Check(it->status());
  it.reset();
  Check(db->Close());
}
