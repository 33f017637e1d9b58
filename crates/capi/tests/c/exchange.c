/* One library exports a column family ($MODE export), another imports it ($MODE import): the
 * description is a text file, since it is an object of the library. */
#include "show.h"

static rocksdb_options_t* o;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

static const char* shared(const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", getenv("EXCHANGE"), name);
  return path;
}

static void put(rocksdb_t* db, const char* key, const char* value) {
  rocksdb_put(db, w, key, strlen(key), value, strlen(value), &err);
}

static void scan(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  size_t n;
  rocksdb_iterator_t* it = rocksdb_create_iterator_cf(db, r, cf);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
    BYTES("  key", rocksdb_iter_key(it, &n));
    BYTES("  value", rocksdb_iter_value(it, &n));
  }
  rocksdb_iter_get_error(it, &err);
  said("scan");
  rocksdb_iter_destroy(it);
}

static void flush(rocksdb_t* db) {
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  said("flush");
  rocksdb_flushoptions_destroy(f);
}

/* Two levels, a deletion, a range deletion, and an ingested table. */
static void fill(rocksdb_t* db) {
  for (int i = 0; i < 20; i++) {
    char key[32];
    snprintf(key, sizeof key, "k%02d", i);
    put(db, key, "bottom");
  }
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
  rocksdb_delete_range_cf(db, w, cf, "k05", 3, "k08", 3, &err);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_delete(db, w, "k01", 3, &err);
  put(db, "k02", "newer");
  flush(db);
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* s = rocksdb_sstfilewriter_create(env, o);
  rocksdb_sstfilewriter_open(s, dir("table.sst"), &err);
  rocksdb_sstfilewriter_put(s, "k02", 3, "ingested", 8, &err);
  rocksdb_sstfilewriter_put(s, "k06", 3, "ingested", 8, &err);
  rocksdb_sstfilewriter_finish(s, &err);
  rocksdb_sstfilewriter_destroy(s);
  rocksdb_envoptions_destroy(env);
  rocksdb_ingestexternalfileoptions_t* i = rocksdb_ingestexternalfileoptions_create();
  const char* files[] = {dir("table.sst")};
  rocksdb_ingest_external_file(db, files, 1, i, &err);
  said("ingest");
  rocksdb_ingestexternalfileoptions_destroy(i);
  put(db, "k03", "last");
}

static void export(void) {
  rocksdb_t* db = rocksdb_open(o, dir("from"), &err);
  said("open");
  fill(db);
  rocksdb_checkpoint_t* c = rocksdb_checkpoint_object_create(db, &err);
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
  rocksdb_export_import_files_metadata_t* m =
      rocksdb_checkpoint_export_column_family(c, cf, shared("export"), &err);
  said("export");
  rocksdb_livefiles_t* files = rocksdb_export_import_files_metadata_get_files(m);
  FILE* text = fopen(shared("files"), "w");
  for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
    printf("level %d from %llu to %llu\n", rocksdb_livefiles_level(files, i),
           (unsigned long long)rocksdb_livefiles_smallest_seqno(files, i),
           (unsigned long long)rocksdb_livefiles_largest_seqno(files, i));
    fprintf(text, "%s %d %zu %llu %llu\n", rocksdb_livefiles_name(files, i),
            rocksdb_livefiles_level(files, i), rocksdb_livefiles_size(files, i),
            (unsigned long long)rocksdb_livefiles_smallest_seqno(files, i),
            (unsigned long long)rocksdb_livefiles_largest_seqno(files, i));
  }
  fclose(text);
  scan(db, cf);
  rocksdb_livefiles_destroy(files);
  rocksdb_export_import_files_metadata_destroy(m);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_checkpoint_object_destroy(c);
  rocksdb_close(db);
}

static void import(void) {
  rocksdb_livefiles_t* files = rocksdb_livefiles_create();
  FILE* text = fopen(shared("files"), "r");
  char name[64];
  int level;
  size_t size;
  unsigned long long first, last;
  while (fscanf(text, "%63s %d %zu %llu %llu", name, &level, &size, &first, &last) == 5) {
    rocksdb_livefile_t* f = rocksdb_livefile_create();
    rocksdb_livefile_set_name(f, name);
    rocksdb_livefile_set_directory(f, shared("export"));
    rocksdb_livefile_set_level(f, level);
    rocksdb_livefile_set_size(f, size);
    rocksdb_livefile_set_smallest_seqno(f, first);
    rocksdb_livefile_set_largest_seqno(f, last);
    rocksdb_livefiles_add(files, f);
  }
  fclose(text);
  rocksdb_export_import_files_metadata_t* m = rocksdb_export_import_files_metadata_create();
  rocksdb_export_import_files_metadata_set_db_comparator_name(m, "leveldb.BytewiseComparator");
  rocksdb_export_import_files_metadata_set_files(m, files);
  rocksdb_t* db = rocksdb_open(o, dir("to"), &err);
  said("open");
  rocksdb_import_column_family_options_t* how = rocksdb_import_column_family_options_create();
  rocksdb_column_family_handle_t* cf =
      rocksdb_create_column_family_with_import(db, o, "to", how, m, &err);
  said("import");
  rocksdb_import_column_family_options_destroy(how);
  rocksdb_export_import_files_metadata_destroy(m);
  if (cf == NULL) exit(1);
  scan(db, cf);
  size_t n;
  TAKEN("ingested", rocksdb_get_cf(db, r, cf, "k06", 3, &n, &err));
  printf("sequence %llu\n", (unsigned long long)rocksdb_get_latest_sequence_number(db));
  rocksdb_put_cf(db, w, cf, "k02", 3, "written", 7, &err);
  rocksdb_compact_range_cf(db, cf, NULL, 0, NULL, 0);
  scan(db, cf);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);
}

int main(void) {
  o = rocksdb_options_create();
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_disable_auto_compactions(o, 1);
  if (strcmp(getenv("MODE"), "export") == 0) export();
  else import();
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(o);
  return 0;
}
