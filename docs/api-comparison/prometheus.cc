// Statistics for Prometheus, with RocksDB.

#include <endian.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>

#include "check.h"
#include "rocksdb/db.h"
#include "rocksdb/statistics.h"

using namespace rocksdb;

std::string Name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c == '-'; }, '_');
  return name;
}

std::string Metrics(DB* db, const Statistics& statistics) {
  std::ostringstream page;
  for (const auto& [ticker, rocksdb] : TickersNameMap) {
    std::string name = Name(rocksdb);
    page << "# TYPE " << name << " counter\n";
    page << name << " " << statistics.getTickerCount(ticker) << "\n";
  }
  for (const auto& [kind, rocksdb] : HistogramsNameMap) {
    std::string name = Name(rocksdb);
    HistogramData values;
    statistics.histogramData(kind, &values);
    page << "# TYPE " << name << " summary\n";
    page << name << "{quantile=\"0.5\"} " << values.median << "\n";
    page << name << "{quantile=\"0.95\"} " << values.percentile95 << "\n";
    page << name << "{quantile=\"0.99\"} " << values.percentile99 << "\n";
    page << name << "_sum " << values.sum << "\n";
    page << name << "_count " << values.count << "\n";
  }
  for (const char* property : {
           "rocksdb.estimate-num-keys",
           "rocksdb.estimate-live-data-size",
           "rocksdb.cur-size-all-mem-tables",
           "rocksdb.estimate-pending-compaction-bytes",
       }) {
    std::string name = Name(property);
    uint64_t value = 0;
    db->GetIntProperty(property, &value);
    page << "# TYPE " << name << " gauge\n" << name << " " << value << "\n";
  }
  return page.str();
}

std::string Key(uint32_t n) {
  n = htobe32(n);
  return std::string(reinterpret_cast<const char*>(&n), sizeof(n));
}

int main(int argc, char** argv) {
  Options options;
  options.create_if_missing = true;
  options.statistics = CreateDBStatistics();
  std::unique_ptr<DB> db;
  Check(DB::Open(options, argc > 1 ? argv[1] : "/tmp/rocksdb-prometheus", &db));
  for (uint32_t n = 0; n < 1000; n++) Check(db->Put(WriteOptions(), Key(n), "value"));
  Check(db->Flush(FlushOptions()));
  for (uint32_t n = 0; n < 500; n++) {
    std::string value;
    Check(db->Get(ReadOptions(), Key(n), &value));
  }
  std::cout << Metrics(db.get(), *options.statistics);
  Check(db->Close());
}
