// Two thousand clients at once, with RocksDB. A call blocks its thread, so each client is a thread
// of the kernel's; two threads would write two at a time.

#include <endian.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "rocksdb/db.h"

using namespace rocksdb;

constexpr uint32_t kClients = 2000;

std::string Key(uint32_t client) {
  client = htobe32(client);
  return std::string(reinterpret_cast<const char*>(&client), sizeof(client));
}

int main(int argc, char** argv) {
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  Check(DB::Open(options, argc > 1 ? argv[1] : "/tmp/rocksdb-fibers", &db));
  std::atomic<size_t> bytes = 0;
  std::vector<std::thread> clients;
  for (uint32_t client = 0; client < kClients; client++) {
    clients.emplace_back([&db, &bytes, client] {
      WriteOptions durable;
      durable.sync = true;
      Check(db->Put(durable, Key(client), "hello"));
      std::string value;
      Check(db->Get(ReadOptions(), Key(client), &value));
      bytes += value.size();
    });
  }
  for (std::thread& client : clients) client.join();
  std::cout << kClients << " clients on " << kClients << " threads read " << bytes << " bytes\n";
  size_t keys = 0;
  std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) keys++;
  Check(it->status());
  it.reset();
  std::cout << keys << " keys\n";
  Check(db->Close());
}
