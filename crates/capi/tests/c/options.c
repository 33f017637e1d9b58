/* Options: by text, from OPTIONS files, of substitutes; other ways to open. */
#include "show.h"

static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

static void texts(void) {
  rocksdb_options_t* base = rocksdb_options_create();
  rocksdb_options_t* made = rocksdb_options_create();
  rocksdb_options_set_max_open_files(base, 77);
  rocksdb_get_options_from_string(
      base, "write_buffer_size=2097152;compression=kNoCompression;num_levels=5;", made, &err);
  said("from text");
  printf("buffer %zu compression %d levels %d files %d\n",
         rocksdb_options_get_write_buffer_size(made), rocksdb_options_get_compression(made),
         rocksdb_options_get_num_levels(made), rocksdb_options_get_max_open_files(made));
  rocksdb_get_options_from_string(base, "no_such_option=1", made, &err);
  printf("unknown refused %d\n", err != NULL);
  free(err);
  err = NULL;
  rocksdb_options_t* copy = rocksdb_options_create_copy(made);
  printf("copy %d\n", rocksdb_options_get_num_levels(copy));
  rocksdb_options_destroy(copy);
  rocksdb_options_destroy(made);
  rocksdb_options_destroy(base);
}

/* What looks like a boolean and is a number, and the reverse. */
static void numbers(void) {
  rocksdb_compactoptions_t* c = rocksdb_compactoptions_create();
  for (int i = 0; i < 5; i++) {
    rocksdb_compactoptions_set_bottommost_level_compaction(c, i);
    printf("bottommost %d\n", rocksdb_compactoptions_get_bottommost_level_compaction(c));
  }
  rocksdb_compactoptions_destroy(c);
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_use_fsync(o, 7);
  printf("fsync %d\n", rocksdb_options_get_use_fsync(o));
  rocksdb_options_destroy(o);
}

static void presets(void) {
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_increase_parallelism(o, 6);
  printf("jobs %d\n", rocksdb_options_get_max_background_jobs(o));
  rocksdb_options_optimize_level_style_compaction(o, 64 << 20);
  printf("buffer %zu merge %d numbers %d l0 %d base %llu\n",
         rocksdb_options_get_write_buffer_size(o),
         rocksdb_options_get_min_write_buffer_number_to_merge(o),
         rocksdb_options_get_max_write_buffer_number(o),
         rocksdb_options_get_level0_file_num_compaction_trigger(o),
         (unsigned long long)rocksdb_options_get_max_bytes_for_level_base(o));
  rocksdb_options_optimize_universal_style_compaction(o, 64 << 20);
  printf("style %d\n", rocksdb_options_get_compaction_style(o));
  rocksdb_options_destroy(o);
  o = rocksdb_options_create();
  rocksdb_options_prepare_for_bulk_load(o);
  printf("bulk: l0 %d auto %d levels %d flushes %d\n",
         rocksdb_options_get_level0_file_num_compaction_trigger(o),
         rocksdb_options_get_disable_auto_compactions(o), rocksdb_options_get_num_levels(o),
         rocksdb_options_get_max_background_flushes(o));
  rocksdb_options_destroy(o);
}

static void kept(const char* name, rocksdb_options_t* o) {
  size_t n;
  rocksdb_t* db = rocksdb_open(o, dir(name), &err);
  said(name);
  rocksdb_put(db, w, "key", 3, "value", 5, &err);
  said("put");
  TAKEN("get", rocksdb_get(db, r, "key", 3, &n, &err));
  rocksdb_close(db);
  db = rocksdb_open(o, dir(name), &err);
  said("open again");
  TAKEN("get again", rocksdb_get(db, r, "key", 3, &n, &err));
  rocksdb_close(db);
}

static rocksdb_options_t* fresh(void) {
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, 0);
  return o;
}

static void substitutes(void) {
  rocksdb_options_t* o = fresh();
  rocksdb_options_set_memtable_vector_rep(o);
  rocksdb_options_set_allow_concurrent_memtable_write(o, 0);
  kept("vector", o);
  rocksdb_options_destroy(o);
  o = fresh();
  rocksdb_options_set_unordered_write(o, 1);
  rocksdb_options_set_recycle_log_file_num(o, 4);
  kept("tuned", o);
  rocksdb_options_destroy(o);
  o = fresh();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_options_set_row_cache(o, cache);
  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(t, cache);
  rocksdb_block_based_options_set_filter_policy(t, rocksdb_filterpolicy_create_ribbon(10));
  rocksdb_block_based_options_set_index_type(t, 2);
  rocksdb_block_based_options_set_partition_filters(t, 1);
  rocksdb_block_based_options_set_format_version(t, 5);
  rocksdb_options_set_block_based_table_factory(o, t);
  rocksdb_block_based_options_destroy(t);
  kept("tables", o);
  printf("capacity %zu\n", rocksdb_cache_get_capacity(cache));
  rocksdb_cache_destroy(cache);
  rocksdb_options_destroy(o);
  o = fresh();
  rocksdb_options_set_compaction_style(o, 1);
  rocksdb_universal_compaction_options_t* u = rocksdb_universal_compaction_options_create();
  rocksdb_universal_compaction_options_set_size_ratio(u, 7);
  rocksdb_universal_compaction_options_set_stop_style(u, 0);
  rocksdb_options_set_universal_compaction_options(o, u);
  rocksdb_universal_compaction_options_destroy(u);
  rocksdb_write_buffer_manager_t* m = rocksdb_write_buffer_manager_create(8 << 20, false);
  rocksdb_options_set_write_buffer_manager(o, m);
  rocksdb_ratelimiter_t* l = rocksdb_ratelimiter_create(10 << 20, 100000, 10);
  rocksdb_options_set_ratelimiter(o, l);
  rocksdb_ratelimiter_destroy(l);
  kept("universal", o);
  printf("limit %zu enabled %d\n", rocksdb_write_buffer_manager_buffer_size(m),
         rocksdb_write_buffer_manager_enabled(m));
  rocksdb_write_buffer_manager_destroy(m);
  rocksdb_options_destroy(o);
}

static void latest(void) {
  rocksdb_options_t* o = fresh();
  rocksdb_options_set_write_buffer_size(o, 3 << 20);
  rocksdb_t* db = rocksdb_open(o, dir("latest"), &err);
  rocksdb_column_family_handle_t* cf = rocksdb_create_column_family(db, o, "other", &err);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_options_t* loaded;
  rocksdb_options_t** each;
  char** names;
  size_t count = 0;
  rocksdb_load_latest_options(dir("latest"), env, false, cache, &loaded, &count, &names, &each,
                              &err);
  said("load");
  for (size_t i = 0; i < count; i++)
    printf("%s has %zu\n", names[i], rocksdb_options_get_write_buffer_size(each[i]));
  rocksdb_load_latest_options_destroy(loaded, names, each, count);
  rocksdb_cache_destroy(cache);
  rocksdb_env_destroy(env);
  rocksdb_options_destroy(o);
}

static void other_ways(void) {
  size_t n;
  rocksdb_options_t* o = fresh();
  rocksdb_t* db = rocksdb_open_with_ttl(o, dir("ttl"), 1000, &err);
  said("open with ttl");
  rocksdb_put(db, w, "key", 3, "value", 5, &err);
  TAKEN("of ttl", rocksdb_get(db, r, "key", 3, &n, &err));
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  BYTES("by an iterator", rocksdb_iter_value(it, &n));
  rocksdb_iter_destroy(it);
  rocksdb_close(db);
  db = rocksdb_open(o, dir("primary"), &err);
  rocksdb_put(db, w, "one", 3, "1", 1, &err);
  rocksdb_options_t* s = fresh();
  rocksdb_options_set_max_open_files(s, -1);
  char path[4096];
  snprintf(path, sizeof path, "%s", dir("secondary"));
  rocksdb_t* second = rocksdb_open_as_secondary(s, dir("primary"), path, &err);
  said("secondary");
  TAKEN("in the secondary", rocksdb_get(second, r, "one", 3, &n, &err));
  rocksdb_put(db, w, "two", 3, "2", 1, &err);
  rocksdb_try_catch_up_with_primary(second, &err);
  said("catch up");
  TAKEN("later", rocksdb_get(second, r, "two", 3, &n, &err));
  rocksdb_close(second);
  rocksdb_close(db);
  rocksdb_env_t* env = rocksdb_create_mem_env();
  rocksdb_options_set_env(o, env);
  kept("memory", o);
  rocksdb_options_destroy(o);
  rocksdb_options_destroy(s);
  rocksdb_env_destroy(env);
}

/* How many absent keys the filter of a flushed table lets through: a fingerprint of its bits. */
static void filtered(const char* name, rocksdb_filterpolicy_t* policy) {
  rocksdb_options_t* o = fresh();
  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_filter_policy(t, policy);
  rocksdb_block_based_options_set_optimize_filters_for_memory(t, 0);
  rocksdb_options_set_block_based_table_factory(o, t);
  rocksdb_block_based_options_destroy(t);
  rocksdb_t* db = rocksdb_open(o, dir(name), &err);
  said(name);
  char key[32];
  for (int i = 0; i < 1500; i++) {
    int size = snprintf(key, sizeof key, "yes%020d", i);
    rocksdb_put(db, w, key, size, "v", 1, &err);
  }
  rocksdb_put(db, w, "a", 1, "v", 1, &err);
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  said("flush");
  rocksdb_flushoptions_destroy(f);
  rocksdb_set_perf_level(rocksdb_enable_count);
  rocksdb_perfcontext_t* perf = rocksdb_perfcontext_create();
  rocksdb_perfcontext_reset(perf);
  for (int i = 0; i < 10000; i++) {
    size_t n;
    int size = snprintf(key, sizeof key, "no%020d", i);
    free(rocksdb_get(db, r, key, size, &n, &err));
  }
  printf("let through %d\n",
         (int)rocksdb_perfcontext_metric(perf, rocksdb_bloom_sst_hit_count));
  rocksdb_perfcontext_destroy(perf);
  rocksdb_close(db);
  rocksdb_options_destroy(o);
}

static void filters(void) {
  filtered("bloom", rocksdb_filterpolicy_create_bloom(8.0));
  filtered("full bloom", rocksdb_filterpolicy_create_bloom_full(8.0));
  filtered("ribbon", rocksdb_filterpolicy_create_ribbon(8.0));
  filtered("hybrid", rocksdb_filterpolicy_create_ribbon_hybrid(8.0, 1));
}

/* A snapshot of what is updated in place shows the newest values. */
static void in_place(void) {
  rocksdb_options_t* o = fresh();
  rocksdb_options_set_inplace_update_support(o, 1);
  rocksdb_t* db = rocksdb_open(o, dir("in place"), &err);
  said("in place, with writers beside each other");
  rocksdb_options_set_allow_concurrent_memtable_write(o, 0);
  db = rocksdb_open(o, dir("in place"), &err);
  said("in place");
  rocksdb_put(db, w, "key", 3, "older", 5, &err);
  const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
  printf("snapshot %d\n", snapshot != NULL);
  rocksdb_put(db, w, "key", 3, "newer", 5, &err);
  rocksdb_readoptions_t* then = rocksdb_readoptions_create();
  rocksdb_readoptions_set_snapshot(then, snapshot);
  size_t n;
  TAKEN("then", rocksdb_get(db, then, "key", 3, &n, &err));
  rocksdb_readoptions_destroy(then);
  rocksdb_release_snapshot(db, snapshot);
  rocksdb_close(db);
  rocksdb_options_destroy(o);
}

int main(void) {
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  texts();
  numbers();
  presets();
  substitutes();
  filters();
  in_place();
  latest();
  other_ways();
  rocksdb_writeoptions_destroy(w);
  rocksdb_readoptions_destroy(r);
  return 0;
}
