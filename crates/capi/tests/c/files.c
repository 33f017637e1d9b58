/* Flushes, compactions, properties, metadata, checkpoints, backups, ingestion, checks. */
#include "show.h"

static rocksdb_options_t* o;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

static void fill(rocksdb_t* db, const char* from, int count) {
  for (int i = 0; i < count; i++) {
    char key[32];
    snprintf(key, sizeof key, "%s%04d", from, i);
    rocksdb_put(db, w, key, strlen(key), "0123456789", 10, &err);
  }
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  said("flush");
  rocksdb_flushoptions_destroy(f);
}

static void number(rocksdb_t* db, const char* name) {
  uint64_t value = 99;
  int result = rocksdb_property_int(db, name, &value);
  printf("%s: %d %llu\n", name, result, (unsigned long long)value);
}

static void describe(rocksdb_t* db) {
  number(db, "rocksdb.num-files-at-level0");
  number(db, "rocksdb.num-entries-active-mem-table");
  number(db, "rocksdb.is-write-stopped");
  number(db, "rocksdb.no-such-property");
  char* text = rocksdb_property_value(db, "rocksdb.num-files-at-level6");
  printf("level 6: %s\n", text ? text : "none");
  free(text);
  printf("unknown: %d\n", rocksdb_property_value(db, "rocksdb.nothing") == NULL);
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  size_t n;
  for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
    printf("file of %s at %d\n", rocksdb_livefiles_column_family_name(files, i),
           rocksdb_livefiles_level(files, i));
    BYTES("  smallest", rocksdb_livefiles_smallestkey(files, i, &n));
    BYTES("  largest", rocksdb_livefiles_largestkey(files, i, &n));
  }
  rocksdb_livefiles_destroy(files);
  rocksdb_column_family_metadata_t* m = rocksdb_get_column_family_metadata(db);
  printf("levels %zu files %zu\n", rocksdb_column_family_metadata_get_level_count(m),
         rocksdb_column_family_metadata_get_file_count(m));
  char* name = rocksdb_column_family_metadata_get_name(m);
  printf("name %s\n", name);
  free(name);
  for (size_t i = 0; i < rocksdb_column_family_metadata_get_level_count(m); i++) {
    rocksdb_level_metadata_t* l = rocksdb_column_family_metadata_get_level_metadata(m, i);
    printf("level %d has %zu\n", rocksdb_level_metadata_get_level(l),
           rocksdb_level_metadata_get_file_count(l));
    rocksdb_level_metadata_destroy(l);
  }
  rocksdb_column_family_metadata_destroy(m);
}

static void identity(rocksdb_t* db) {
  size_t n = 0, again = 0;
  char* first = rocksdb_get_db_identity(db, &n);
  char* second = rocksdb_get_db_identity(db, &again);
  printf("identity %zu, the same %d\n", n, n == again && memcmp(first, second, n) == 0);
  free(first);
  free(second);
}

static void sizes(rocksdb_t* db) {
  const char* starts[] = {"a", "zz"};
  const char* ends[] = {"z", "zzz"};
  const size_t start_lens[] = {1, 2}, end_lens[] = {1, 3};
  uint64_t found[2] = {7, 7};
  rocksdb_approximate_sizes(db, 2, starts, start_lens, ends, end_lens, found, &err);
  said("sizes");
  printf("some %d, none %llu\n", found[0] > 0, (unsigned long long)found[1]);
  rocksdb_size_approximation_options_t* s = rocksdb_size_approximation_options_create();
  rocksdb_size_approximation_options_set_include_files(s, 0);
  rocksdb_approximate_sizes_with_options(db, s, 2, starts, start_lens, ends, end_lens, found, &err);
  said("sizes of nothing");
  rocksdb_size_approximation_options_destroy(s);
}

static void changes(rocksdb_t* db) {
  const char* names[] = {"write_buffer_size", "disable_auto_compactions"};
  const char* values[] = {"1048576", "true"};
  rocksdb_set_options(db, 2, names, values, &err);
  said("set_options");
  const char* unknown[] = {"no_such_option"};
  rocksdb_set_options(db, 1, unknown, values, &err);
  printf("unknown option refused %d\n", err != NULL);
  free(err);
  err = NULL;
  const char* db_names[] = {"max_background_jobs"};
  const char* db_values[] = {"3"};
  rocksdb_set_db_options(db, 1, db_names, db_values, &err);
  said("set_db_options");
  rocksdb_disable_file_deletions(db, &err);
  said("disable deletions");
  rocksdb_enable_file_deletions(db, &err);
  said("enable deletions");
  rocksdb_pause_background_work(db, &err);
  said("pause");
  rocksdb_continue_background_work(db, &err);
  said("continue");
  rocksdb_continue_background_work(db, &err);
  said("continue again");
  rocksdb_verify_checksum(db, &err);
  said("verify");
  rocksdb_verify_file_checksums(db, &err);
  said("verify file checksums");
  rocksdb_flush_wal(db, 1, &err);
  said("flush wal");
  rocksdb_wait_for_compact_options_t* wait = rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact(db, wait, &err);
  said("wait");
  rocksdb_wait_for_compact_options_destroy(wait);
  rocksdb_suggest_compact_range(db, "a", 1, "b", 1, &err);
  said("suggest");
  rocksdb_delete_file_in_range(db, "y", 1, "z", 1, &err);
  said("delete files");
}

static void checkpoint(rocksdb_t* db) {
  size_t n;
  rocksdb_checkpoint_t* c = rocksdb_checkpoint_object_create(db, &err);
  rocksdb_checkpoint_create(c, dir("copy"), 0, &err);
  said("checkpoint");
  rocksdb_checkpoint_object_destroy(c);
  rocksdb_t* copy = rocksdb_open(o, dir("copy"), &err);
  said("open the checkpoint");
  TAKEN("in the copy", rocksdb_get(copy, r, "k0001", 5, &n, &err));
  rocksdb_close(copy);
  rocksdb_destroy_db(o, dir("copy"), &err);
  said("destroy the copy");
}

static void backup(rocksdb_t* db) {
  size_t n;
  rocksdb_backup_engine_t* b = rocksdb_backup_engine_open(o, dir("backup"), &err);
  said("backup engine");
  rocksdb_backup_engine_create_new_backup(b, db, &err);
  said("backup");
  rocksdb_backup_engine_create_new_backup_flush(b, db, 1, &err);
  said("backup with flush");
  const rocksdb_backup_engine_info_t* info = rocksdb_backup_engine_get_backup_info(b);
  printf("backups %d\n", rocksdb_backup_engine_info_count(info));
  printf("second is %u\n", rocksdb_backup_engine_info_backup_id(info, 1));
  rocksdb_backup_engine_info_destroy(info);
  rocksdb_backup_engine_verify_backup(b, 1, &err);
  said("verify");
  rocksdb_backup_engine_verify_backup(b, 9, &err);
  said("verify what is not there");
  rocksdb_backup_engine_purge_old_backups(b, 1, &err);
  said("purge");
  rocksdb_restore_options_t* restore = rocksdb_restore_options_create();
  char wal[4096];
  snprintf(wal, sizeof wal, "%s", dir("restored"));
  rocksdb_backup_engine_restore_db_from_latest_backup(b, wal, wal, restore, &err);
  said("restore");
  rocksdb_restore_options_destroy(restore);
  rocksdb_backup_engine_close(b);
  rocksdb_t* restored = rocksdb_open(o, dir("restored"), &err);
  said("open what was restored");
  TAKEN("restored", rocksdb_get(restored, r, "k0002", 5, &n, &err));
  rocksdb_close(restored);
}

static void ingest(rocksdb_t* db) {
  size_t n;
  uint64_t size = 0;
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* s = rocksdb_sstfilewriter_create(env, o);
  rocksdb_sstfilewriter_open(s, dir("table.sst"), &err);
  said("open table");
  rocksdb_sstfilewriter_put(s, "x1", 2, "one", 3, &err);
  said("put");
  rocksdb_sstfilewriter_put(s, "x0", 2, "zero", 4, &err);
  printf("out of order refused %d\n", err != NULL);
  free(err);
  err = NULL;
  rocksdb_sstfilewriter_delete(s, "x2", 2, &err);
  rocksdb_sstfilewriter_finish(s, &err);
  said("finish");
  rocksdb_sstfilewriter_file_size(s, &size);
  printf("has size %d\n", size > 0);
  rocksdb_sstfilewriter_destroy(s);
  rocksdb_envoptions_destroy(env);
  rocksdb_ingestexternalfileoptions_t* i = rocksdb_ingestexternalfileoptions_create();
  const char* files[] = {dir("table.sst")};
  rocksdb_ingest_external_file(db, files, 1, i, &err);
  said("ingest");
  TAKEN("ingested", rocksdb_get(db, r, "x1", 2, &n, &err));
  rocksdb_ingestexternalfileoptions_destroy(i);
}

int main(void) {
  o = rocksdb_options_create();
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, 0);
  rocksdb_options_enable_statistics(o);
  rocksdb_t* db = rocksdb_open(o, dir("files"), &err);
  said("open");
  fill(db, "k", 100);
  describe(db);
  fill(db, "k", 100);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  describe(db);
  identity(db);
  sizes(db);
  changes(db);
  checkpoint(db);
  backup(db);
  ingest(db);
  printf("keys written %llu\n",
         (unsigned long long)rocksdb_options_statistics_get_ticker_count(o, 61) / 201);
  rocksdb_close(db);
  rocksdb_repair_db(o, dir("files"), &err);
  said("repair");
  rocksdb_destroy_db(o, dir("files"), &err);
  said("destroy");
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(o);
  return 0;
}
