//! Environments and loggers.

use pumice::PoolPriority;
use pumice_binding::env::Env;

use crate::ffi::from::{State, Text, Unused};
use crate::ffi::generated::rocksdb_envoptions_t;
use crate::ffi::into::New;
use crate::ffi::logger::{LogFn, c_logger, stderr_logger};
use crate::ffi::macros::c_api;
use crate::ffi::types::{InfoLogger, Limiter};

fn threads(env: &Env, priority: PoolPriority) -> i32 {
    i32::try_from(env.background_threads(priority)).unwrap_or(i32::MAX)
}

fn lower(priority: PoolPriority, cpu: bool) {
    let pools = pumice::ThreadPools::shared();
    let lowered = match cpu {
        true => pools.lower_thread_pool_cpu_priority(priority, pumice::CpuPriority::Low),
        false => pools.lower_thread_pool_io_priority(priority),
    };
    // As in RocksDB, it is a wish, and there is no place for an error.
    lowered.ok();
}

c_api! {
    fn rocksdb_create_default_env() -> New<Env> {
        New(Env::default())
    }

    fn rocksdb_create_mem_env() -> New<Env> {
        New(Env::in_memory())
    }

    fn rocksdb_create_dir_if_missing(env: &Env, path: Text<'_>, errptr: Fail) {
        env.file_system().create_dir_all(&path.path())
    }

    fn rocksdb_env_set_background_threads(env: &Env, threads: i32) {
        env.set_background_threads(PoolPriority::Low, i64::from(threads));
    }

    fn rocksdb_env_get_background_threads(env: &Env) -> i32 {
        threads(env, PoolPriority::Low)
    }

    fn rocksdb_env_set_low_priority_background_threads(env: &Env, threads: i32) {
        env.set_background_threads(PoolPriority::Low, i64::from(threads));
    }

    fn rocksdb_env_get_low_priority_background_threads(env: &Env) -> i32 {
        threads(env, PoolPriority::Low)
    }

    fn rocksdb_env_set_high_priority_background_threads(env: &Env, threads: i32) {
        env.set_background_threads(PoolPriority::High, i64::from(threads));
    }

    fn rocksdb_env_get_high_priority_background_threads(env: &Env) -> i32 {
        threads(env, PoolPriority::High)
    }

    fn rocksdb_env_set_bottom_priority_background_threads(env: &Env, threads: i32) {
        env.set_background_threads(PoolPriority::Bottom, i64::from(threads));
    }

    fn rocksdb_env_get_bottom_priority_background_threads(env: &Env) -> i32 {
        threads(env, PoolPriority::Bottom)
    }

    fn rocksdb_env_join_all_threads(_env: &Env) {
        // Threads of the pools hold nothing of a closed database; they end with the process.
        pumice::ThreadPools::shared().wait_idle();
    }

    fn rocksdb_env_lower_thread_pool_io_priority(_env: &Env) {
        lower(PoolPriority::Low, false);
    }

    fn rocksdb_env_lower_high_priority_thread_pool_io_priority(_env: &Env) {
        lower(PoolPriority::High, false);
    }

    fn rocksdb_env_lower_thread_pool_cpu_priority(_env: &Env) {
        lower(PoolPriority::Low, true);
    }

    fn rocksdb_env_lower_high_priority_thread_pool_cpu_priority(_env: &Env) {
        lower(PoolPriority::High, true);
    }

    fn rocksdb_envoptions_set_rate_limiter(
        _options: &mut rocksdb_envoptions_t, _limiter: Unused<Limiter>
    ) {
        // Only SstFileWriter takes these options, and its files are not limited.
    }

    fn rocksdb_logger_create_stderr_logger(
        log_level: i32, prefix: Option<Text<'_>>
    ) -> New<InfoLogger> {
        New(stderr_logger(log_level, prefix.map_or_else(String::new, |prefix| prefix.text())))
    }

    fn rocksdb_logger_create_callback_logger(
        log_level: i32, log: LogFn, state: State
    ) -> New<InfoLogger> {
        New(c_logger(log_level, log, state))
    }
}
