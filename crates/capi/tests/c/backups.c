/* Options of backups and restores. */
#include "show.h"

static rocksdb_options_t* o;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

static char place[4096];
static char home[4096];

static void put(rocksdb_t* db, const char* key, const char* value) {
  rocksdb_put(db, w, key, strlen(key), value, strlen(value), &err);
}

static rocksdb_backup_engine_t* engine(int logs, int destroy, uint64_t interval) {
  rocksdb_backup_engine_options_t* how = rocksdb_backup_engine_options_create(place);
  rocksdb_backup_engine_options_set_backup_log_files(how, (unsigned char)logs);
  rocksdb_backup_engine_options_set_destroy_old_data(how, (unsigned char)destroy);
  if (interval > 0) {
    rocksdb_backup_engine_options_set_callback_trigger_interval_size(how, interval);
  }
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_backup_engine_t* b = rocksdb_backup_engine_open_opts(how, env, &err);
  said("engine");
  rocksdb_env_destroy(env);
  rocksdb_backup_engine_options_destroy(how);
  return b;
}

static void count(rocksdb_backup_engine_t* b) {
  const rocksdb_backup_engine_info_t* info = rocksdb_backup_engine_get_backup_info(b);
  int backups = rocksdb_backup_engine_info_count(info);
  printf("backups %d\n", backups);
  for (int i = 0; i < backups; i++) {
    printf("id %u files %u\n", rocksdb_backup_engine_info_backup_id(info, i),
           rocksdb_backup_engine_info_number_files(info, i));
  }
  rocksdb_backup_engine_info_destroy(info);
}

static void restored(rocksdb_backup_engine_t* b, int keep, int mode) {
  size_t n;
  printf("keep %d mode %d\n", keep, mode);
  rocksdb_restore_options_t* how = rocksdb_restore_options_create();
  rocksdb_restore_options_set_keep_log_files(how, keep);
  rocksdb_restore_options_set_mode(how, mode);
  rocksdb_backup_engine_restore_db_from_latest_backup(b, home, home, how, &err);
  said("restore");
  rocksdb_restore_options_destroy(how);
  rocksdb_t* db = rocksdb_open(o, home, &err);
  said("open");
  TAKEN("a", rocksdb_get(db, r, "a", 1, &n, &err));
  TAKEN("b", rocksdb_get(db, r, "b", 1, &n, &err));
  TAKEN("c", rocksdb_get(db, r, "c", 1, &n, &err));
  rocksdb_close(db);
}

static int calls = 0;
static void progress(void* state) {
  (void)state;
  calls++;
}

static int asked;

static unsigned char leave_out(void* state, const char* path, size_t length) {
  printf("%.*s\n", length > 20 ? 17 : (int)length, path);
  asked++;
  return state != NULL;
}

/* The same backups with other names, and with tables left out. */
static void kinds(rocksdb_t* db) {
  static const struct {
    int share, checksum, schema;
    uint32_t naming;
  } all[] = {{0, 0, 1, 2}, {1, 0, 1, 2}, {1, 1, 1, 1}, {1, 1, 2, 2}, {1, 1, 2, 0x80000002u}};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    char name[32];
    snprintf(name, sizeof name, "backups-%zu", i);
    rocksdb_backup_engine_options_t* how = rocksdb_backup_engine_options_create(dir(name));
    rocksdb_backup_engine_options_set_share_table_files(how, (unsigned char)all[i].share);
    rocksdb_backup_engine_options_set_share_files_with_checksum(how,
                                                                (unsigned char)all[i].checksum);
    rocksdb_backup_engine_options_set_share_files_with_checksum_naming(how, (int)all[i].naming);
    rocksdb_backup_engine_options_set_schema_version(how, all[i].schema);
    rocksdb_env_t* env = rocksdb_create_default_env();
    rocksdb_backup_engine_t* b = rocksdb_backup_engine_open_opts(how, env, &err);
    said("engine");
    rocksdb_create_backup_options_t* c = rocksdb_create_backup_options_create();
    rocksdb_create_backup_options_set_flush_before_backup(c, 1);
    uint32_t id = 0;
    for (int left_out = 2; left_out >= 0; left_out--) {
      asked = 0;
      rocksdb_create_backup_options_set_exclude_files_callback(
          c, left_out == 2 ? &asked : NULL, left_out > 0 ? leave_out : NULL);
      rocksdb_backup_engine_create_new_backup_with_options(b, db, c, &id, &err);
      said("backup of this kind");
      printf("id %u asked %d\n", id, asked);
    }
    count(b);
    rocksdb_restore_options_t* restore = rocksdb_restore_options_create();
    rocksdb_backup_engine_restore_db_from_backup(b, dir("restored"), dir("restored"), restore, 1,
                                                 &err);
    said("restore");
    rocksdb_restore_options_destroy(restore);
    rocksdb_t* copy = rocksdb_open(o, dir("restored"), &err);
    said("open of the copy");
    size_t n;
    TAKEN("copied", rocksdb_get(copy, r, "k000100", 7, &n, &err));
    rocksdb_close(copy);
    rocksdb_destroy_db(o, dir("restored"), &err);
    rocksdb_create_backup_options_destroy(c);
    rocksdb_backup_engine_close(b);
    rocksdb_env_destroy(env);
    rocksdb_backup_engine_options_destroy(how);
  }
}

int main(void) {
  snprintf(place, sizeof place, "%s", dir("backups"));
  snprintf(home, sizeof home, "%s", dir("db"));
  o = rocksdb_options_create();
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, 0);
  rocksdb_t* db = rocksdb_open(o, home, &err);
  said("open");
  put(db, "a", "table");
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  rocksdb_flushoptions_destroy(f);
  put(db, "b", "log");
  rocksdb_backup_engine_t* b = engine(0, 0, 0);
  rocksdb_backup_engine_create_new_backup(b, db, &err);
  said("backup");
  put(db, "c", "later");
  rocksdb_close(db);
  restored(b, 1, 0xffff);
  restored(b, 0, 1);
  restored(b, 0, 2);
  restored(b, 0, 0xffff);
  rocksdb_backup_engine_close(b);
  db = rocksdb_open(o, home, &err);
  for (int i = 0; i < 2000; i++) {
    char key[32];
    snprintf(key, sizeof key, "k%06d", i);
    put(db, key, "0123456789012345678901234567890123456789012345678901234567890123");
  }
  b = engine(1, 0, 1000);
  count(b);
  rocksdb_create_backup_options_t* c = rocksdb_create_backup_options_create();
  rocksdb_create_backup_options_set_flush_before_backup(c, 1);
  rocksdb_create_backup_options_set_progress_callback(c, NULL, progress);
  uint32_t id = 0;
  rocksdb_backup_engine_create_new_backup_with_options(b, db, c, &id, &err);
  said("backup with progress");
  printf("id %u called %d\n", id, calls > 0);
  rocksdb_create_backup_options_destroy(c);
  count(b);
  rocksdb_backup_engine_stop_backup(b);
  rocksdb_backup_engine_create_new_backup(b, db, &err);
  said("backup after the stop");
  count(b);
  rocksdb_backup_engine_close(b);
  b = engine(1, 1, 0);
  count(b);
  rocksdb_backup_engine_create_new_backup(b, db, &err);
  said("backup");
  count(b);
  rocksdb_backup_engine_close(b);
  kinds(db);
  rocksdb_close(db);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(o);
  return 0;
}
