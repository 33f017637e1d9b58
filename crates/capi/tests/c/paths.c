/* Tables in several directories: placed by flushes and compactions, moved by manual ones, found by
 * the other library. $MODE says what is done: write a database in $EXCHANGE, or change it. */
#include "show.h"

static rocksdb_options_t* o;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

static const char* shared(const char* name) {
  static char path[4][4096];
  static int at = 0;
  at = (at + 1) % 4;
  snprintf(path[at], sizeof path[at], "%s/%s", getenv("EXCHANGE"), name);
  return path[at];
}

/* Level and directory of each table. */
static void places(rocksdb_t* db) {
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
    const char* place = strrchr(rocksdb_livefiles_directory(files, i), '/');
    printf("  %s level %d in %s\n", rocksdb_livefiles_column_family_name(files, i),
           rocksdb_livefiles_level(files, i), place);
  }
  rocksdb_livefiles_destroy(files);
}

static void fill(rocksdb_t* db, rocksdb_column_family_handle_t* cf, int from, int to) {
  for (int i = from; i < to; i++) {
    char key[32];
    snprintf(key, sizeof key, "k%04d", i);
    rocksdb_put_cf(db, w, cf, key, strlen(key), getenv("MODE"), strlen(getenv("MODE")), &err);
  }
  said("fill");
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush_cf(db, f, cf, &err);
  said("flush");
  rocksdb_flushoptions_destroy(f);
  rocksdb_wait_for_compact_options_t* wait = rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact(db, wait, &err);
  said("wait");
  rocksdb_wait_for_compact_options_destroy(wait);
  places(db);
}

static void count(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  rocksdb_iterator_t* it = rocksdb_create_iterator_cf(db, r, cf);
  int keys = 0, written = 0;
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
    size_t n;
    written += strncmp(rocksdb_iter_value(it, &n), "write", 5) == 0;
    keys++;
  }
  rocksdb_iter_get_error(it, &err);
  said("scan");
  size_t n;
  TAKEN("one", rocksdb_get_cf(db, r, cf, "k0075", 5, &n, &err));
  printf("keys %d, first written %d\n", keys, written);
  rocksdb_iter_destroy(it);
}

static void compact(rocksdb_t* db, rocksdb_column_family_handle_t* cf, int path) {
  rocksdb_compactoptions_t* c = rocksdb_compactoptions_create();
  rocksdb_compactoptions_set_target_path_id(c, path);
  rocksdb_compactoptions_set_bottommost_level_compaction(c, 2);
  rocksdb_compact_range_cf_opt(db, cf, c, NULL, 0, NULL, 0);
  rocksdb_compactoptions_destroy(c);
  printf("compacted into path %d\n", path);
  places(db);
}

int main(void) {
  o = rocksdb_options_create();
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_create_missing_column_families(o, 1);
  rocksdb_options_set_level0_file_num_compaction_trigger(o, 2);
  rocksdb_options_set_max_bytes_for_level_base(o, 1 << 20);
  rocksdb_dbpath_t* paths[2] = {rocksdb_dbpath_create(shared("fast"), 3 << 19),
                                rocksdb_dbpath_create(shared("large"), 1ull << 40)};
  rocksdb_options_set_db_paths(o, (const rocksdb_dbpath_t**)paths, 2);
  rocksdb_options_t* own = rocksdb_options_create_copy(o);
  rocksdb_options_set_compaction_style(own, 1);
  rocksdb_dbpath_t* others[2] = {rocksdb_dbpath_create(shared("small"), 64),
                                 rocksdb_dbpath_create(shared("rest"), 1ull << 40)};
  rocksdb_options_set_cf_paths(own, (const rocksdb_dbpath_t**)others, 2);
  for (int i = 0; i < 2; i++) {
    rocksdb_dbpath_destroy(paths[i]);
    rocksdb_dbpath_destroy(others[i]);
  }
  const char* names[] = {"default", "own"};
  const rocksdb_options_t* options[] = {o, own};
  rocksdb_column_family_handle_t* cf[2];
  rocksdb_t* db = rocksdb_open_column_families(o, shared("db"), 2, names, options, cf, &err);
  said("open");
  if (db == NULL) exit(1);
  places(db);
  count(db, cf[0]);
  count(db, cf[1]);
  for (int i = 0; i < 2; i++) {
    fill(db, cf[i], 0, 100);
    fill(db, cf[i], 50, 150);
    fill(db, cf[i], 200, 210);
    count(db, cf[i]);
  }
  compact(db, cf[0], 1);
  compact(db, cf[0], 0);
  compact(db, cf[1], 0);
  fill(db, cf[0], 300, 310);
  for (int i = 0; i < 2; i++) {
    count(db, cf[i]);
    rocksdb_column_family_handle_destroy(cf[i]);
  }
  rocksdb_close(db);
  rocksdb_options_set_db_paths(o, NULL, 0);
  db = rocksdb_open(o, dir("alone"), &err);
  said("a database without paths");
  rocksdb_close(db);
  /* Refused. */
  rocksdb_options_set_compaction_style(own, 2);
  db = rocksdb_open_column_families(o, shared("db"), 2, names, options, cf, &err);
  said("FIFO");
  rocksdb_options_destroy(own);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(o);
  return 0;
}
