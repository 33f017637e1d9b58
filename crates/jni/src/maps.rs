//! Maps of Java's, and the properties of tables that have some in them.
//!
//! Thread safety: on the calling thread.

use jni_sys::jvalue;
use pumice_binding::reports::Properties;
use pumice_binding::store::Fields;

use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};

/// A map of Java's with these texts.
///
/// # Errors
/// There is no memory.
pub fn text_map<'a>(
    env: Env<'a>,
    entries: impl IntoIterator<Item = (String, String)>,
) -> Result<Object<'a>> {
    let map = env.construct("java/util/HashMap", "()V", &[])?;
    for (name, value) in entries {
        let (name, value) = (env.new_text(&name)?, env.new_text(&value)?);
        put(env, map, name, value)?;
        env.forget(name);
        env.forget(value);
    }
    Ok(map)
}

/// Puts an entry into a map of Java's.
///
/// # Errors
/// There is no memory.
pub fn put(env: Env<'_>, map: Object<'_>, key: Object<'_>, value: Object<'_>) -> Result<()> {
    let class = env.class("java/util/Map")?;
    let signature = "(Ljava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;";
    let method = env.method(class, "put", signature)?;
    let before =
        env.call_object(map, method, &[jvalue { l: key.raw() }, jvalue { l: value.raw() }])?;
    env.forget(before);
    Ok(())
}

/// The numbers of Java's `TableProperties`, in the order of its constructor.
const NUMBERS: [&str; 22] = [
    "data_size",
    "index_size",
    "index_partitions",
    "top_level_index_size",
    "index_key_is_user_key",
    "index_value_is_delta_encoded",
    "filter_size",
    "raw_key_size",
    "raw_value_size",
    "num_data_blocks",
    "num_entries",
    "num_deletions",
    "num_merge_operands",
    "num_range_deletions",
    "format_version",
    "fixed_key_len",
    "column_family_id",
    "creation_time",
    "oldest_key_time",
    "slow_compression_estimated_data_size",
    "fast_compression_estimated_data_size",
    "external_sst_file_global_seqno_offset",
];

/// The texts, behind the family's name.
const TEXTS: [&str; 6] = [
    "filter_policy_name",
    "comparator_name",
    "merge_operator_name",
    "prefix_extractor_name",
    "property_collectors_names",
    "compression_name",
];

/// Properties of a table as Java's `TableProperties`.
///
/// # Errors
/// There is no memory.
pub fn table_properties<'a>(env: Env<'a>, properties: &Properties) -> Result<Object<'a>> {
    let store = properties.store();
    let mut arguments: Vec<jvalue> =
        NUMBERS.iter().map(|name| jvalue { j: store.int(name) }).collect();
    arguments.push(jvalue { l: env.new_bytes(store.text("column_family_name"))?.raw() });
    for name in TEXTS {
        let text = env.new_text(&String::from_utf8_lossy(store.text(name)))?;
        arguments.push(jvalue { l: text.raw() });
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let collected = properties.user_collected.iter().map(|(name, value)| (text(name), text(value)));
    arguments.push(jvalue { l: text_map(env, collected)?.raw() });
    arguments.push(jvalue { l: text_map(env, [])?.raw() });
    let signature = concat!(
        "(JJJJJJJJJJJJJJJJJJJJJJ[BLjava/lang/String;Ljava/lang/String;Ljava/lang/String;",
        "Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;Ljava/util/Map;Ljava/util/Map;)V"
    );
    env.construct("org/rocksdb/TableProperties", signature, &arguments)
}
