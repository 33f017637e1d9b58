/* Traces with their replay, and compactions by a service: a worker is this program again, run by
 * the shell with the libraries in SHOW_WORKER, if that is set. */
#include "show.h"
#include <unistd.h>

static rocksdb_options_t* o;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;
static char self[4096];

static char* read_all(const char* path, size_t* n) {
  FILE* f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  *n = (size_t)ftell(f);
  rewind(f);
  char* data = malloc(*n + 1);
  *n = fread(data, 1, *n, f);
  fclose(f);
  return data;
}

static void write_all(const char* path, const char* data, size_t n) {
  FILE* f = fopen(path, "wb");
  fwrite(data, 1, n, f);
  fclose(f);
}

static rocksdb_t* open_at(const char* name) {
  rocksdb_t* db = rocksdb_open(o, dir(name), &err);
  said("open");
  return db;
}

static void put(rocksdb_t* db, int key, int value) {
  char k[16], v[64];
  snprintf(k, sizeof k, "key%05d", key);
  snprintf(v, sizeof v, "value %d of %d", value, key);
  rocksdb_put(db, w, k, strlen(k), v, strlen(v), &err);
}

static void scan(rocksdb_t* db) {
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_destroy(it);
}

/* The records of a trace: types and payloads, without times. */
static void records(const char* name, int payloads) {
  size_t n = 0;
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_envoptions_t* eo = rocksdb_envoptions_create();
  rocksdb_trace_reader_t* reader = rocksdb_trace_reader_create(env, eo, dir(name), &err);
  said("reader");
  int count = 0;
  for (;;) {
    char* record = rocksdb_trace_reader_read(reader, &n, &err);
    if (err || !record) break;
    if (count++ == 0) printf("first type %d\n", record[8]);
    else if (payloads && record[8] != 2) {
      /* The header of a batch has its sequence number, which says nothing. */
      if (record[8] == 3) memset(record + 13 + 8 + 1, 0, 8);
      printf("type %d ", record[8]);
      bytes("payload", record + 13, n - 13);
    }
    rocksdb_free(record);
  }
  said("end of the trace");
  printf("some %d\n", count > 1);
  rocksdb_trace_reader_reset(reader, &err);
  said("reset");
  char* record = rocksdb_trace_reader_read(reader, &n, &err);
  said("again");
  printf("type %d\n", record[8]);
  rocksdb_free(record);
  rocksdb_trace_reader_close(reader, &err);
  said("close");
  rocksdb_trace_reader_destroy(reader);
  rocksdb_trace_reader_create(env, eo, dir("no such trace"), &err);
  printf("missing: %.9s\n", err);
  free(err);
  err = NULL;
  rocksdb_envoptions_destroy(eo);
  rocksdb_env_destroy(env);
}

static void traces(void) {
  size_t n;
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_envoptions_t* eo = rocksdb_envoptions_create();
  rocksdb_trace_options_t* to = rocksdb_trace_options_create();
  char one[4096];
  snprintf(one, sizeof one, "%s", dir("queries"));
  rocksdb_t* db = open_at("traced");
  rocksdb_end_trace(db, &err);
  said("no trace to end");
  rocksdb_start_trace(db, env, eo, to, one, &err);
  said("start");
  for (int i = 0; i < 5; i++) put(db, i, i);
  rocksdb_delete(db, w, "key00002", 8, &err);
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "a", 1, "b", 1);
  rocksdb_writebatch_delete(batch, "c", 1);
  rocksdb_write(db, w, batch, &err);
  rocksdb_writebatch_destroy(batch);
  char* value = rocksdb_get(db, r, "key00001", 8, &n, &err);
  taken("get", value, n);
  rocksdb_readoptions_t* bounded = rocksdb_readoptions_create();
  rocksdb_readoptions_set_iterate_lower_bound(bounded, "key", 3);
  rocksdb_readoptions_set_iterate_upper_bound(bounded, "kez", 3);
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, bounded);
  rocksdb_iter_seek(it, "key00001", 8);
  rocksdb_iter_seek_for_prev(it, "key00003", 8);
  rocksdb_iter_seek_to_first(it);
  rocksdb_iter_destroy(it);
  rocksdb_readoptions_destroy(bounded);
  const char* keys[] = {"key00000", "none"};
  size_t sizes[] = {8, 4}, got[2];
  char *values[2], *errs[2];
  rocksdb_multi_get(db, r, 2, keys, sizes, values, got, errs);
  rocksdb_free(values[0]);
  rocksdb_free(values[1]);
  rocksdb_end_trace(db, &err);
  said("end");
  put(db, 77, 7);
  records("queries", 1);

  rocksdb_start_block_cache_trace(db, env, eo, to, dir("blocks"), &err);
  said("start blocks");
  rocksdb_start_io_trace(db, env, eo, to, dir("files"), &err);
  said("start files");
  rocksdb_start_io_trace(db, env, eo, to, dir("files2"), &err);
  said("start files again");
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  said("flush");
  rocksdb_flushoptions_destroy(f);
  free(rocksdb_get(db, r, "key00001", 8, &n, &err));
  rocksdb_end_io_trace(db, &err);
  said("end files");
  rocksdb_end_block_cache_trace(db, &err);
  said("end blocks");
  rocksdb_end_block_cache_trace(db, &err);
  said("end blocks again");
  records("blocks", 0);
  records("files", 0);
  rocksdb_close(db);

  db = open_at("replayed");
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
  rocksdb_replayer_t* replayer = rocksdb_new_default_replayer(db, &cf, 1, env, eo, one, &err);
  said("replayer");
  rocksdb_replay_options_t* ro = rocksdb_replay_options_create();
  rocksdb_replay_options_set_fast_forward(ro, 0);
  rocksdb_replayer_replay(replayer, ro, &err);
  said("replay at no speed");
  rocksdb_replay_options_set_fast_forward(ro, 1e6);
  rocksdb_replayer_replay(replayer, ro, &err);
  said("replay early");
  rocksdb_replayer_prepare(replayer, &err);
  said("prepare");
  printf("time %d\n", rocksdb_replayer_get_header_timestamp(replayer) > 0);
  rocksdb_replayer_replay(replayer, ro, &err);
  said("replay");
  rocksdb_replayer_replay(replayer, ro, &err);
  said("replay again");
  rocksdb_replay_options_destroy(ro);
  rocksdb_replayer_destroy(replayer);
  rocksdb_column_family_handle_destroy(cf);
  scan(db);
  rocksdb_close(db);
  rocksdb_trace_options_destroy(to);
  rocksdb_envoptions_destroy(eo);
  rocksdb_env_destroy(env);
}

struct service {
  int answer, jobs, cancelled;
  char db[4096], id[64];
};

static void end_service(void* state) {
  // How often depends on how long jobs take to end.
  printf("service ends, cancelled: %d\n", ((struct service*)state)->cancelled > 0);
}

static rocksdb_compactionservice_scheduleresponse_t* schedule(
    void* state, const rocksdb_compactionservice_jobinfo_t* info, const char* input, size_t size) {
  struct service* s = state;
  size_t n;
  BYTES("cf", rocksdb_compactionservice_jobinfo_t_get_cf_name(info, &n));
  printf("cf %u reason %d levels %d %d priority %d full %d manual %d bottom %d\n",
         rocksdb_compactionservice_jobinfo_t_get_cf_id(info),
         rocksdb_compactionservice_jobinfo_t_get_compaction_reason(info),
         rocksdb_compactionservice_jobinfo_t_get_base_input_level(info),
         rocksdb_compactionservice_jobinfo_t_get_output_level(info),
         rocksdb_compactionservice_jobinfo_t_get_priority(info),
         rocksdb_compactionservice_jobinfo_t_is_full_compaction(info),
         rocksdb_compactionservice_jobinfo_t_is_manual_compaction(info),
         rocksdb_compactionservice_jobinfo_t_is_bottommost_level(info));
  const char* name = rocksdb_compactionservice_jobinfo_t_get_db_name(info, &n);
  printf("db %d\n", n == strlen(s->db) && memcmp(name, s->db, n) == 0);
  rocksdb_compactionservice_jobinfo_t_get_db_id(info, &n);
  printf("id %d ", n > 10);
  rocksdb_compactionservice_jobinfo_t_get_db_session_id(info, &n);
  printf("session %d job %d\n", n > 10, rocksdb_compactionservice_jobinfo_t_get_job_id(info) > 0);
  snprintf(s->id, sizeof s->id, "job-%d", s->jobs++);
  write_all(dir("input"), input, size);
  rocksdb_compactionservice_scheduleresponse_t* response =
      rocksdb_compactionservice_scheduleresponse_create(s->id, s->answer, &err);
  said("answer");
  return response;
}

static int wait_for(void* state, const char* id, char** result, size_t* size) {
  struct service* s = state;
  printf("wait %s %d\n", id, strcmp(id, s->id) == 0);
  char command[30000];
  const char* libraries = getenv("SHOW_WORKER");
  if (!libraries) libraries = getenv("LD_LIBRARY_PATH");
  char out[4096], input[4096], output[4096];
  snprintf(out, sizeof out, "%s", dir(id));
  snprintf(input, sizeof input, "%s", dir("input"));
  snprintf(output, sizeof output, "%s", dir("output"));
  snprintf(command, sizeof command, "LD_LIBRARY_PATH='%s' '%s' '%s' '%s' '%s' '%s'", libraries, self,
           s->db, out, input, output);
  fflush(stdout);
  if (system(command) != 0) return 1;
  *result = read_all(output, size);
  return 0;
}

static void cancel(void* state) {
  ((struct service*)state)->cancelled++;
}

static void installed(void* state, const char* id, int status) {
  (void)state;
  printf("installation of %s: %d\n", id, status);
}

/* The worker: database, output folder, input, output. */
static int work(char** argv) {
  size_t n, size = 0;
  char* input = read_all(argv[3], &n);
  rocksdb_compaction_service_options_override_t* over =
      rocksdb_compaction_service_options_override_create();
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_compaction_service_options_override_set_env(over, env);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_compaction_service_options_override_set_block_based_table_factory(over, table);
  rocksdb_open_and_compact_options_t* how = rocksdb_open_and_compact_options_create();
  unsigned char* canceled = rocksdb_open_and_compact_canceled_create();
  rocksdb_open_and_compact_options_set_canceled(how, canceled);
  rocksdb_open_and_compact_canceled_set(canceled, 1);
  char* result =
      rocksdb_open_and_compact_with_options(how, argv[1], argv[2], input, n, &size, over, &err);
  printf("cancelled: %d %s\n", result == NULL || size > 0, err ? err : "ok");
  free(err);
  err = NULL;
  rocksdb_free(result);
  result = rocksdb_open_and_compact(argv[1], argv[2], input, n, &size, over, &err);
  said("open and compact");
  if (result) write_all(argv[4], result, size);
  rocksdb_free(result);
  rocksdb_open_and_compact_options_destroy(how);
  rocksdb_open_and_compact_canceled_destroy(canceled);
  rocksdb_block_based_options_destroy(table);
  rocksdb_compaction_service_options_override_destroy(over);
  rocksdb_env_destroy(env);
  free(input);
  return 0;
}

static void compactions(void) {
  struct service s = {0, 0, 0, "", ""};
  snprintf(s.db, sizeof s.db, "%s", dir("served"));
  rocksdb_options_set_compaction_service(
      o, rocksdb_compactionservice_create(&s, end_service, schedule, "test", wait_for, cancel, installed));
  rocksdb_t* db = open_at("served");
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  int answers[] = {3, 0, 0};
  for (int turn = 0; turn < 3; turn++) {
    for (int file = 0; file < 2; file++) {
      for (int key = file; key < 40; key += 2 - turn % 2) put(db, key, turn * 10 + file);
      rocksdb_delete(db, w, "key00011", 8, &err);
      rocksdb_flush(db, f, &err);
      said("flush");
    }
    s.answer = answers[turn];
    rocksdb_compact_range(db, NULL, 0, NULL, 0);
  }
  rocksdb_flushoptions_destroy(f);
  scan(db);
  char* levels = rocksdb_property_value(db, "rocksdb.num-files-at-level0");
  printf("level 0: %s\n", levels);
  rocksdb_free(levels);
  rocksdb_close(db);
  db = open_at("served");
  scan(db);
  rocksdb_close(db);
}

int main(int argc, char** argv) {
  if (argc == 5) return work(argv);
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length > 0 ? length : 0] = 0;
  o = rocksdb_options_create();
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_disable_auto_compactions(o, 1);
  traces();
  compactions();
  rocksdb_options_destroy(o);
  rocksdb_writeoptions_destroy(w);
  rocksdb_readoptions_destroy(r);
  return 0;
}
