/* Exported and imported column families, lists of files, filters of tables, ends of compactions. */
#include "show.h"

static rocksdb_options_t* o;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

static void put(rocksdb_t* db, rocksdb_column_family_handle_t* cf, const char* key, const char* value) {
  rocksdb_put_cf(db, w, cf, key, strlen(key), value, strlen(value), &err);
}

static void flush(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush_cf(db, f, cf, &err);
  said("flush");
  rocksdb_flushoptions_destroy(f);
}

static void scan(rocksdb_t* db, rocksdb_readoptions_t* how, rocksdb_column_family_handle_t* cf) {
  size_t n;
  rocksdb_iterator_t* it = rocksdb_create_iterator_cf(db, how, cf);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
    BYTES("  key", rocksdb_iter_key(it, &n));
    BYTES("  value", rocksdb_iter_value(it, &n));
  }
  for (rocksdb_iter_seek_to_last(it); rocksdb_iter_valid(it); rocksdb_iter_prev(it)) {
    BYTES("  back", rocksdb_iter_key(it, &n));
  }
  rocksdb_iter_seek(it, "b", 1);
  printf("  from b %d\n", rocksdb_iter_valid(it));
  rocksdb_iter_get_error(it, &err);
  said("scan");
  rocksdb_iter_destroy(it);
}

static void describe(const rocksdb_livefiles_t* files) {
  size_t n;
  for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
    const char* name = rocksdb_livefiles_name(files, i);
    printf("family '%s' level %d slash %d entries %llu deletions %llu\n",
           rocksdb_livefiles_column_family_name(files, i), rocksdb_livefiles_level(files, i),
           name[0] == '/', (unsigned long long)rocksdb_livefiles_entries(files, i),
           (unsigned long long)rocksdb_livefiles_deletions(files, i));
    printf("seqnos %llu %llu in %s\n",
           (unsigned long long)rocksdb_livefiles_smallest_seqno(files, i),
           (unsigned long long)rocksdb_livefiles_largest_seqno(files, i),
           rocksdb_livefiles_directory(files, i));
    BYTES("smallest", rocksdb_livefiles_smallestkey(files, i, &n));
    BYTES("largest", rocksdb_livefiles_largestkey(files, i, &n));
  }
}

/* A description that a program makes, from what can be asked. */
static rocksdb_livefiles_t* by_hand(const rocksdb_livefiles_t* files) {
  size_t n;
  rocksdb_livefiles_t* made = rocksdb_livefiles_create();
  for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
    rocksdb_livefile_t* f = rocksdb_livefile_create();
    rocksdb_livefile_set_name(f, rocksdb_livefiles_name(files, i));
    rocksdb_livefile_set_directory(f, rocksdb_livefiles_directory(files, i));
    rocksdb_livefile_set_level(f, rocksdb_livefiles_level(files, i));
    rocksdb_livefile_set_size(f, rocksdb_livefiles_size(files, i));
    const char* key = rocksdb_livefiles_smallestkey(files, i, &n);
    rocksdb_livefile_set_smallest_key(f, key, n);
    key = rocksdb_livefiles_largestkey(files, i, &n);
    rocksdb_livefile_set_largest_key(f, key, n);
    rocksdb_livefile_set_smallest_seqno(f, rocksdb_livefiles_smallest_seqno(files, i));
    rocksdb_livefile_set_largest_seqno(f, rocksdb_livefiles_largest_seqno(files, i));
    rocksdb_livefiles_add(made, f);
  }
  return made;
}

static void import(rocksdb_t* db, const char* name, rocksdb_export_import_files_metadata_t* m,
                   int move) {
  rocksdb_import_column_family_options_t* how = rocksdb_import_column_family_options_create();
  rocksdb_import_column_family_options_set_move_files(how, (unsigned char)move);
  rocksdb_column_family_handle_t* cf =
      rocksdb_create_column_family_with_import(db, o, name, how, m, &err);
  said(name);
  rocksdb_import_column_family_options_destroy(how);
  if (cf == NULL) return;
  scan(db, r, cf);
  printf("sequence %llu\n", (unsigned long long)rocksdb_get_latest_sequence_number(db));
  rocksdb_column_family_metadata_t* meta = rocksdb_get_column_family_metadata_cf(db, cf);
  for (size_t i = 0; i < rocksdb_column_family_metadata_get_level_count(meta); i++) {
    rocksdb_level_metadata_t* l = rocksdb_column_family_metadata_get_level_metadata(meta, i);
    printf("level %zu has %zu\n", i, rocksdb_level_metadata_get_file_count(l));
    rocksdb_level_metadata_destroy(l);
  }
  rocksdb_column_family_metadata_destroy(meta);
  put(db, cf, "c", "later");
  rocksdb_compact_range_cf(db, cf, NULL, 0, NULL, 0);
  scan(db, r, cf);
  rocksdb_column_family_handle_destroy(cf);
}

static void transfers(rocksdb_t* db, rocksdb_t* other, rocksdb_column_family_handle_t* cf) {
  rocksdb_checkpoint_t* c = rocksdb_checkpoint_object_create(db, &err);
  rocksdb_export_import_files_metadata_t* m =
      rocksdb_checkpoint_export_column_family(c, cf, dir("export"), &err);
  said("export");
  printf("again %d\n", rocksdb_checkpoint_export_column_family(c, cf, dir("export"), &err) == NULL);
  said("export again");
  char* name = rocksdb_export_import_files_metadata_get_db_comparator_name(m);
  printf("comparator %s\n", name);
  free(name);
  rocksdb_livefiles_t* files = rocksdb_export_import_files_metadata_get_files(m);
  describe(files);
  import(other, "copied", m, 0);
  import(other, "copied", m, 0);
  rocksdb_export_import_files_metadata_t* made = rocksdb_export_import_files_metadata_create();
  name = rocksdb_export_import_files_metadata_get_db_comparator_name(made);
  printf("fresh comparator '%s'\n", name);
  free(name);
  import(other, "no comparator", made, 0);
  rocksdb_export_import_files_metadata_set_db_comparator_name(made, "leveldb.BytewiseComparator");
  import(other, "no files", made, 0);
  rocksdb_livefiles_t* hand = by_hand(files);
  rocksdb_export_import_files_metadata_set_files(made, hand);
  import(other, "by hand", made, 0);
  import(db, "into the same", m, 1);
  rocksdb_livefiles_destroy(files);
  rocksdb_export_import_files_metadata_destroy(made);
  rocksdb_export_import_files_metadata_destroy(m);
  rocksdb_checkpoint_object_destroy(c);
}

static void list(rocksdb_t* db, uint64_t flush_at, int checksums) {
  size_t n;
  rocksdb_livefiles_storage_info_options_t* how = rocksdb_livefiles_storage_info_options_create();
  rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(how, flush_at);
  rocksdb_livefiles_storage_info_options_set_include_checksum_info(how, (unsigned char)checksums);
  rocksdb_livefiles_storage_info_t* s = rocksdb_get_livefiles_storage_info(db, how, &err);
  said("list");
  printf("%zu files\n", rocksdb_livefiles_storage_info_count(s));
  for (size_t i = 0; i < rocksdb_livefiles_storage_info_count(s); i++) {
    int type = rocksdb_livefiles_storage_info_file_type(s, i);
    const char* name = rocksdb_livefiles_storage_info_relative_filename(s, i);
    printf("type %d number %d size %d trim %d temperature %d in %s ends %s\n", type,
           rocksdb_livefiles_storage_info_file_number(s, i) > 0,
           rocksdb_livefiles_storage_info_size(s, i) > 0,
           rocksdb_livefiles_storage_info_trim_to_size(s, i),
           rocksdb_livefiles_storage_info_temperature(s, i),
           rocksdb_livefiles_storage_info_directory(s, i), type == 2 || type == 0 ? name + 6 : "");
    const char* contents = rocksdb_livefiles_storage_info_replacement_contents(s, i, &n);
    printf("contents %zu %.9s\n", n, contents);
    printf("checksum %zu by %s\n", strlen(rocksdb_livefiles_storage_info_file_checksum(s, i)),
           rocksdb_livefiles_storage_info_file_checksum_func_name(s, i));
  }
  rocksdb_livefiles_storage_info_destroy(s);
  rocksdb_livefiles_storage_info_options_destroy(how);
}

static int asked = 0;

static unsigned char has_few(void* state, const rocksdb_table_properties_t* p) {
  (void)state;
  asked++;
  return rocksdb_table_properties_num_entries(p) < 2;
}

static void ended(void* state) { printf("%s ended\n", (const char*)state); }

static void filters(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  size_t n;
  rocksdb_readoptions_t* how = rocksdb_readoptions_create();
  printf("filter %d\n", rocksdb_readoptions_has_table_filter(how));
  rocksdb_readoptions_set_table_filter(how, "filter", ended, has_few);
  printf("filter %d\n", rocksdb_readoptions_has_table_filter(how));
  scan(db, how, cf);
  printf("asked %d\n", asked > 0);
  asked = 0;
  TAKEN("point read", rocksdb_get_cf(db, how, cf, "a", 1, &n, &err));
  printf("asked %d\n", asked);
  rocksdb_compact_range_cf(db, cf, NULL, 0, NULL, 0);
  scan(db, how, cf);
  rocksdb_readoptions_clear_table_filter(how);
  printf("filter %d\n", rocksdb_readoptions_has_table_filter(how));
  scan(db, how, cf);
  rocksdb_readoptions_destroy(how);
}

static void part(const char* what, const rocksdb_subcompactionjobinfo_t* info) {
  size_t n;
  BYTES(what, rocksdb_subcompactionjobinfo_cf_name(info, &n));
  printf("  job %d part %d from %d to %d reason %u\n", rocksdb_subcompactionjobinfo_job_id(info) > 0,
         rocksdb_subcompactionjobinfo_subcompaction_job_id(info),
         rocksdb_subcompactionjobinfo_base_input_level(info),
         rocksdb_subcompactionjobinfo_output_level(info),
         rocksdb_subcompactionjobinfo_compaction_reason(info));
  rocksdb_subcompactionjobinfo_status(info, &err);
  said("  status");
}

static void begins(void* state, const rocksdb_subcompactionjobinfo_t* info) {
  (void)state;
  part("part begins", info);
}

static void ends(void* state, const rocksdb_subcompactionjobinfo_t* info) {
  (void)state;
  part("part ends", info);
  const rocksdb_compaction_job_stats_t* stats = rocksdb_subcompactionjobinfo_stats(info);
  printf("  records %llu\n",
         (unsigned long long)rocksdb_compaction_job_stats_num_input_records(stats));
}

static void flushed(void* s, rocksdb_t* db, const rocksdb_flushjobinfo_t* i) { (void)s, (void)db, (void)i; }
static void compacted(void* s, rocksdb_t* db, const rocksdb_compactionjobinfo_t* i) {
  (void)s, (void)db, (void)i;
}
static void ingested(void* s, rocksdb_t* db, const rocksdb_externalfileingestioninfo_t* i) {
  (void)s, (void)db, (void)i;
}
static void failed(void* s, uint32_t reason, rocksdb_status_ptr_t* p) { (void)s, (void)reason, (void)p; }
static void stalled(void* s, const rocksdb_writestallinfo_t* i) { (void)s, (void)i; }
static void sealed(void* s, const rocksdb_memtableinfo_t* i) { (void)s, (void)i; }

static void one(rocksdb_t* db, rocksdb_column_family_handle_t* cf, rocksdb_compaction_options_t* how,
                const char** names) {
  char** outputs = NULL;
  size_t count = 0;
  rocksdb_compact_files_cf(db, cf, how, names, 1, 6, -1, &outputs, &count, NULL, &err);
  printf("outputs %zu\n", count);
  if (outputs != NULL) rocksdb_compact_files_output_file_names_destroy(outputs, count);
}

static void compactions(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  put(db, cf, "d", "1");
  flush(db, cf);
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  const char* names[1] = {NULL};
  for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
    if (rocksdb_livefiles_level(files, i) == 0) names[0] = rocksdb_livefiles_name(files, i);
  }
  rocksdb_compaction_options_t* how = rocksdb_compaction_options_create();
  unsigned char* flag = rocksdb_compaction_options_canceled_create();
  rocksdb_compaction_options_set_canceled(how, flag);
  rocksdb_compaction_options_canceled_set(flag, 1);
  one(db, cf, how, names);
  said("cancelled");
  rocksdb_compaction_options_canceled_set(flag, 0);
  rocksdb_disable_manual_compaction(db);
  one(db, cf, how, names);
  said("paused");
  rocksdb_enable_manual_compaction(db);
  one(db, cf, how, names);
  said("compacted");
  rocksdb_compaction_options_destroy(how);
  rocksdb_compaction_options_canceled_destroy(flag);
  rocksdb_livefiles_destroy(files);
}

int main(void) {
  size_t n;
  o = rocksdb_options_create();
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, 0);
  rocksdb_options_set_disable_auto_compactions(o, 1);
  rocksdb_options_add_eventlistener(
      o, rocksdb_eventlistener_create("listener", ended, flushed, flushed, compacted, compacted,
                                      begins, ends, ingested, failed, stalled, sealed));
  rocksdb_t* db = rocksdb_open(o, dir("from"), &err);
  rocksdb_t* other = rocksdb_open(o, dir("to"), &err);
  said("open");
  rocksdb_column_family_handle_t* cf = rocksdb_create_column_family(db, o, "cf", &err);
  said("family");
  put(db, cf, "a", "old");
  put(db, cf, "b", "1");
  rocksdb_compact_range_cf(db, cf, NULL, 0, NULL, 0);
  put(db, cf, "a", "new");
  list(db, UINT64_MAX, 0);
  list(db, 0, 1);
  filters(db, cf);
  put(db, cf, "a", "newer");
  flush(db, cf);
  put(db, cf, "a", "newest");
  rocksdb_delete_cf(db, w, cf, "b", 1, &err);
  transfers(db, other, cf);
  compactions(db, cf);
  put(db, cf, "z", "last");
  rocksdb_cancel_all_background_work(db, 1);
  TAKEN("read", rocksdb_get_cf(db, r, cf, "z", 1, &n, &err));
  put(db, cf, "y", "still");
  said("put after the end of background work");
  rocksdb_memory_allocator_t* none = rocksdb_jemalloc_nodump_allocator_create(&err);
  said("allocator");
  rocksdb_memory_allocator_destroy(none);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);
  rocksdb_close(other);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(o);
  return 0;
}
