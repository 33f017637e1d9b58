//! Filters of Java that decide what is read: records of logs while a database is opened, and tables
//! of a scan.

use std::collections::BTreeMap;
use std::path::Path;

use jni_sys::jvalue;
use pumice::TableFilter;
use pumice::options::{WalFilter, WalProcessing};
use pumice_binding::batch::Batch;
use pumice_binding::reports::Properties;

use super::needed;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Method, Object};
use crate::ffi::handle;
use crate::ffi::vm::Global;
use crate::maps::{put, table_properties};

/// A filter of logs (`AbstractWalFilter`).
#[derive(Debug)]
pub struct JavaWalFilter {
    object: Global,
    name: String,
    families: Method,
    record: Method,
}

impl JavaWalFilter {
    /// The filter `object`.
    ///
    /// # Errors
    /// It has no name; a Java exception.
    pub fn new(env: Env<'_>, object: Object<'_>) -> Result<JavaWalFilter> {
        let class = env.class_of(object);
        let name = env.method(class, "name", "()Ljava/lang/String;")?;
        let name = env.text(env.call_object(object, name, &[])?)?;
        let maps = "(Ljava/util/Map;Ljava/util/Map;)V";
        Ok(JavaWalFilter {
            name,
            object: Global::new(env, object),
            families: env.method(class, "columnFamilyLogNumberMap", maps)?,
            record: env.method(class, "logRecordFoundProxy", "(JLjava/lang/String;JJ)S")?,
        })
    }
}

fn integer<'a>(env: Env<'a>, number: u32) -> Result<Object<'a>> {
    env.construct("java/lang/Integer", "(I)V", &[jvalue { i: number.cast_signed() }])
}

fn long<'a>(env: Env<'a>, number: u64) -> Result<Object<'a>> {
    env.construct("java/lang/Long", "(J)V", &[jvalue { j: number.cast_signed() }])
}

impl WalFilter for JavaWalFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn column_family_log_number_map(
        &self,
        log_numbers: &BTreeMap<u32, u64>,
        ids: &BTreeMap<String, u32>,
    ) {
        needed(&self.name, |env| {
            let numbers = env.construct("java/util/HashMap", "()V", &[])?;
            for (id, number) in log_numbers {
                env.frame(|| put(env, numbers, integer(env, *id)?, long(env, *number)?))?;
            }
            let names = env.construct("java/util/HashMap", "()V", &[])?;
            for (name, id) in ids {
                env.frame(|| put(env, names, env.new_text(name)?, integer(env, *id)?))?;
            }
            let arguments = [jvalue { l: numbers.raw() }, jvalue { l: names.raw() }];
            env.call_void(self.object.object(), self.families, &arguments)
        });
    }

    fn log_record_found(&self, log_number: u64, log_file: &Path, record: &[u8]) -> WalProcessing {
        let Ok(batch) = Batch::from_log(record) else { return WalProcessing::CorruptedRecord };
        let (decision, changed) = needed(&self.name, |env| {
            let path = env.new_text(&log_file.to_string_lossy())?;
            let (old, new) = (handle::give(batch), handle::give(Batch::default()));
            let arguments = [
                jvalue { j: log_number.cast_signed() },
                jvalue { l: path.raw() },
                jvalue { j: old },
                jvalue { j: new },
            ];
            let decision = env.call_short(self.object.object(), self.record, &arguments);
            // Java's objects do not own these.
            drop(handle::take::<Batch>(old)?);
            let new = handle::take::<Batch>(new)?;
            Ok((decision?, new))
        });
        match (decision >> 8, decision & 1) {
            (0, 0) => WalProcessing::ContinueProcessing,
            (0, _) => WalProcessing::Replace(changed.updates.data().to_vec()),
            (1, _) => WalProcessing::IgnoreCurrentRecord,
            (2, _) => WalProcessing::StopReplay,
            _ => WalProcessing::CorruptedRecord,
        }
    }
}

/// A filter of tables (`AbstractTableFilter`).
///
/// # Errors
/// A Java exception.
pub fn table_filter(env: Env<'_>, object: Object<'_>) -> Result<TableFilter> {
    let class = env.class_of(object);
    let filter = env.method(class, "filter", "(Lorg/rocksdb/TableProperties;)Z")?;
    let object = Global::new(env, object);
    Ok(TableFilter::new(move |properties| {
        needed("TableFilter", |env| {
            let properties = table_properties(env, &Properties::new(properties))?;
            env.call_flag(object.object(), filter, &[jvalue { l: properties.raw() }])
        })
    }))
}
