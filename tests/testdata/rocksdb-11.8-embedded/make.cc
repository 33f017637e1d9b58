// Writes the tables of this folder with RocksDB 11.8.1: see README.md.
#include <string>
#include <cstdio>
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"
#include "rocksdb/comparator.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
using namespace rocksdb;
static void must(const Status& s) { if (!s.ok()) { fprintf(stderr, "%s\n", s.ToString().c_str()); exit(1); } }
static std::string value(int n, size_t len) { std::string v; for (size_t i = 0; i < len; i++) v.push_back("abcdefghijklmnopqrstuvwxyz"[(n * 7 + i * (1 + n % 3)) % 26]); return v; }
int main(int argc, char** argv) {
  std::string dir = argv[1];
  for (int kind = 0; kind < 3; kind++) {
    Options options;
    BlockBasedTableOptions table;
    table.format_version = 7;
    table.block_size = 256;
    if (kind == 1) { table.checksum = kCRC32c; }
    if (kind == 2) { table.index_type = BlockBasedTableOptions::kTwoLevelIndexSearch; table.metadata_block_size = 256; table.cache_index_and_filter_blocks = true; }
    options.compression = kind == 1 ? kLZ4Compression : kNoCompression;
    options.table_factory.reset(NewBlockBasedTableFactory(table));
    SstFileWriter writer(EnvOptions(), options);
    SstFileWriterEmbeddedBlobOptions blobs;
    blobs.min_blob_size = 100;
    const char* names[] = {"xxh3", "crc-lz4", "partitioned", "small"};
    std::string path = dir + "/" + names[kind] + ".sst";
    must(writer.OpenWithEmbeddedBlobs(path, blobs));
    int keys = kind == 0 ? 60 : 30;
    for (int n = 0; n < keys; n++) {
      char key[16]; snprintf(key, sizeof key, "k%04d", n);
      switch (n % 6) {
        case 0: must(writer.Put(key, value(n, 300 + n))); break;
        case 1: must(writer.Put(key, value(n, 20))); break;
        case 2: must(writer.PutEntity(key, {{"", value(n, 150)}, {"small", value(n, 5)}, {"tall", value(n + 1, 200)}})); break;
        case 3: must(writer.Merge(key, value(n, 150))); break;
        case 4: must(writer.Delete(key)); break;
        default: must(writer.Put(key, value(n, 100))); break;
      }
    }
    if (kind == 0) must(writer.DeleteRange("k0900", "k0950"));
    must(writer.Finish());
  }
}
