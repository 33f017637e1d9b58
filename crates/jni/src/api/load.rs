//! Options from the OPTIONS files of databases.

use jni_sys::jvalue;
use pumice::options::{FileRules, LoadedOptions, load_latest_options, parse_options_file};
use pumice::{Error, FilterPolicy, SubCode};
use pumice_binding::env::Env as Files;
use pumice_binding::store::Fields;
use pumice_env::filename::{FileType, parse};

use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::handle;
use crate::objects::{Options, Policy, Values};

/// Objects of the program's, such as a comparator, are left out, as RocksDB does.
fn rules(config: &Values) -> FileRules {
    FileRules {
        ignore_unknown_options: config.store().flag("ignore_unknown_options"),
        ignore_unsupported_options: true,
        ..FileRules::default()
    }
}

/// The environment in which the files are.
fn files_of(config: &Values) -> Result<Files> {
    match config.store().bits("env").cast_signed() {
        0 => Ok(Files::default()),
        handle => handle::read::<Files>(handle).cloned(),
    }
}

/// Java: ConfigOptions.setEnv
pub fn set_env(_env: Env<'_>, config: &mut Values, files: i64) -> Result<()> {
    handle::read::<Files>(files)?;
    config.store_mut().put("env", files.cast_unsigned());
    Ok(())
}

fn none(path: &str) -> Error {
    let text = format!("No options files found in the DB directory.: {path}");
    Error::not_found(text).with_subcode(SubCode::PathNotFound)
}

/// A directory that is not there has no files.
fn found<T>(path: &str, result: pumice::Result<T>) -> Result<T> {
    let is_missing = |error: &Error| error.subcode() == SubCode::PathNotFound;
    Ok(result.map_err(|error| if is_missing(&error) { none(path) } else { error })?)
}

/// The descriptor of a family whose options have the object's handle.
pub fn descriptor<'a>(env: Env<'a>, name: &[u8], options: Options) -> Result<Object<'a>> {
    let options = [jvalue { j: handle::give(options) }];
    let options = env.construct("org/rocksdb/ColumnFamilyOptions", "(J)V", &options)?;
    let name = env.new_bytes(name)?;
    let arguments = [jvalue { l: name.raw() }, jvalue { l: options.raw() }];
    let signature = "([BLorg/rocksdb/ColumnFamilyOptions;)V";
    env.construct("org/rocksdb/ColumnFamilyDescriptor", signature, &arguments)
}

/// Options of a column family alone.
pub fn of_family(cf: pumice::ColumnFamilyOptions) -> Options {
    let mut options = Options::default();
    options.values.take_engine(pumice::Options { cf, ..pumice::Options::default() });
    options
}

fn hand_over(
    env: Env<'_>,
    loaded: LoadedOptions,
    db: &mut Options,
    families: Object<'_>,
) -> Result<()> {
    db.values.take_engine(pumice::Options { db: loaded.db, ..pumice::Options::default() });
    let add = env.method(env.class("java/util/List")?, "add", "(Ljava/lang/Object;)Z")?;
    for family in loaded.column_families {
        let made = descriptor(env, family.name.as_bytes(), of_family(family.options))?;
        env.call_flag(families, add, &[jvalue { l: made.raw() }])?;
        env.forget(made);
    }
    Ok(())
}

/// Java: OptionsUtil.loadLatestOptions
pub fn latest(
    env: Env<'_>,
    config: &Values,
    path: String,
    db: &mut Options,
    families: Object<'_>,
) -> Result<()> {
    let files = files_of(config)?;
    let loaded = load_latest_options(&**files.file_system(), path.as_ref(), rules(config));
    hand_over(env, found(&path, loaded)?.ok_or_else(|| none(&path))?, db, families)
}

/// Java: OptionsUtil.loadOptionsFromFile
pub fn of_file(
    env: Env<'_>,
    config: &Values,
    path: String,
    db: &mut Options,
    families: Object<'_>,
) -> Result<()> {
    let text = files_of(config)?.file_system().read_file(path.as_ref())?;
    hand_over(env, parse_options_file(&text, rules(config))?, db, families)
}

/// Java: OptionsUtil.getLatestOptionsFileName
pub fn latest_name(_env: Env<'_>, path: String, files: &Files) -> Result<String> {
    let names = found(&path, files.file_system().list(path.as_ref()))?;
    let numbered = names.into_iter().filter_map(|name| match parse(&name) {
        Some((number, FileType::Options)) => Some((number, name)),
        _ => None,
    });
    let newest = numbered.max().ok_or_else(|| none(&path))?;
    Ok(newest.1)
}

/// Java: OptionsUtil.readTableFormatConfig
pub fn table_config<'a>(env: Env<'a>, options: &Options) -> Result<Object<'a>> {
    let table = &options.values.table;
    let store = table.store();
    let flag = |name| jvalue { z: store.flag(name) };
    let byte = |name| jvalue { b: store.int(name) as i8 };
    let int = |name| jvalue { i: store.int(name) as i32 };
    let long = |name| jvalue { j: store.int(name) };
    let double = |name| jvalue { d: store.double(name) };
    let (filter, policy, bits) = filter_of(table.engine.filter_policy);
    let mut arguments = vec![
        flag("cache_index_and_filter_blocks"),
        flag("cache_index_and_filter_blocks_with_high_priority"),
        flag("pin_l0_filter_and_index_blocks_in_cache"),
        flag("pin_top_level_index_and_filter"),
        byte("index_type"),
        byte("data_block_index_type"),
        double("data_block_hash_table_util_ratio"),
        byte("checksum"),
        flag("no_block_cache"),
        long("block_size"),
        int("block_size_deviation"),
        int("block_restart_interval"),
        int("index_block_restart_interval"),
        long("metadata_block_size"),
        flag("partition_filters"),
        flag("optimize_filters_for_memory"),
        flag("use_delta_encoding"),
        flag("whole_key_filtering"),
        flag("verify_compression"),
        int("read_amp_bytes_per_bit"),
        int("format_version"),
    ];
    let of_11 = [flag("separate_key_value_in_data_block"), double("uniform_cv_threshold")];
    let common = [flag("enable_index_compression"), flag("block_align")];
    let more_of_11 =
        [long("super_block_alignment_size"), long("super_block_alignment_space_overhead_ratio")];
    let last = [jvalue { b: filter }, jvalue { j: policy }, jvalue { d: bits }];
    let mut newest = arguments.clone();
    newest.extend(of_11.iter().chain(&common).chain(&more_of_11));
    newest.extend([byte("index_shortening"), byte("index_block_search_type")]);
    newest.extend(last);
    arguments.extend(common);
    arguments.push(byte("index_shortening"));
    arguments.extend(last);
    const CLASS: &str = "org/rocksdb/BlockBasedTableConfig";
    // The classes of 11 have more to say.
    env.construct(CLASS, "(ZZZZBBDBZJIIIJZZZZZIIZDZZJJBBBJD)V", &newest).or_else(|_| {
        env.clear_pending();
        env.construct(CLASS, "(ZZZZBBDBZJIIIJZZZZZIIZZBBJD)V", &arguments)
    })
}

/// Java's number of the kind of filter, the handle of one, and its bits a key.
fn filter_of(policy: Option<FilterPolicy>) -> (i8, i64, f64) {
    match policy {
        // Java gives up the handle: it is as small as the number.
        Some(policy) if policy.name() == "bloomfilter" => {
            let bits = f64::from(policy.millibits_per_key()) / 1000.0;
            (1, handle::give(Policy(policy)), bits)
        }
        _ => (0, 0, 0.0),
    }
}
