/* One library writes databases of plain and of cuckoo tables ($MODE write), another goes on with
 * them ($MODE again). */
#include "show.h"

static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

static const char* shared(const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", getenv("EXCHANGE"), name);
  return path;
}

static void fill(rocksdb_t* db, const char* value) {
  for (int i = 0; i < 300; i++) {
    char key[32];
    snprintf(key, sizeof key, "key%06d", i);
    if (i % 7 == value[0] % 7) {
      rocksdb_delete(db, w, key, 9, &err);
    } else {
      rocksdb_put(db, w, key, 9, value, 5, &err);
    }
  }
  said("fill");
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  said("flush");
  rocksdb_flushoptions_destroy(f);
}

static void scan(rocksdb_t* db) {
  unsigned keys = 0, hash = 0;
  size_t n, m;
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
    const char* key = rocksdb_iter_key(it, &n);
    const char* value = rocksdb_iter_value(it, &m);
    for (size_t i = 0; i < n; i++) hash = hash * 31 + (unsigned char)key[i];
    for (size_t i = 0; i < m; i++) hash = hash * 31 + (unsigned char)value[i];
    keys++;
  }
  rocksdb_iter_get_error(it, &err);
  said("scan");
  printf("%u keys, %u\n", keys, hash);
  rocksdb_iter_destroy(it);
  TAKEN("key", rocksdb_get(db, r, "key000123", 9, &n, &err));
  TAKEN("no key", rocksdb_get(db, r, "key000999", 9, &n, &err));
}

static void use(const char* name, rocksdb_options_t* o) {
  int again = strcmp(getenv("MODE"), "again") == 0;
  printf("%s\n", name);
  rocksdb_t* db = rocksdb_open(o, shared(name), &err);
  said("open");
  if (db == NULL) return;
  if (again) scan(db);
  fill(db, again ? "again" : "first");
  scan(db);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  scan(db);
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
  rocksdb_delete_range_cf(db, w, cf, "a", 1, "b", 1, &err);
  said("delete range");
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);
  rocksdb_options_destroy(o);
}

static rocksdb_options_t* options(void) {
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, 0);
  rocksdb_options_set_disable_auto_compactions(o, 1);
  return o;
}

int main(void) {
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_t* plain = options();
  rocksdb_options_set_plain_table_factory(plain, 0, 10, 0.0, 16, 0, 0, 0, 0);
  use("plain", plain);
  rocksdb_options_t* hashed = options();
  rocksdb_options_set_prefix_extractor(hashed, rocksdb_slicetransform_create_fixed_prefix(7));
  rocksdb_options_set_plain_table_factory(hashed, 9, 10, 0.75, 4, 0, 1, 0, 1);
  use("hashed", hashed);
  rocksdb_options_t* cuckoo = options();
  rocksdb_cuckoo_table_options_t* c = rocksdb_cuckoo_options_create();
  rocksdb_cuckoo_options_set_hash_ratio(c, 0.6);
  rocksdb_cuckoo_options_set_max_search_depth(c, 20);
  rocksdb_cuckoo_options_set_cuckoo_block_size(c, 3);
  rocksdb_cuckoo_options_set_use_module_hash(c, 0);
  rocksdb_cuckoo_options_set_identity_as_first_hash(c, 1);
  printf("ratio %.2f\n", rocksdb_cuckoo_options_get_hash_table_ratio(c));
  rocksdb_options_set_allow_mmap_reads(cuckoo, 1);
  rocksdb_options_set_cuckoo_table_factory(cuckoo, c);
  rocksdb_cuckoo_options_destroy(c);
  use("cuckoo", cuckoo);
  rocksdb_writeoptions_destroy(w);
  rocksdb_readoptions_destroy(r);
  return 0;
}
