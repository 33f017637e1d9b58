//! Event listeners of Java (`AbstractEventListener`).
//!
//! One of Java's may serve several databases: each gets an object of its own, which knows the
//! handle of its database. Events of files' operations, of the recovery from errors, and of column
//! family handles do not come.

use std::path::Path;
use std::sync::Arc;

use jni_sys::jvalue;
use pumice::{
    BackgroundErrorReason, CompactionJobInfo, Error, EventListener, ExternalFileIngestionInfo,
    FlushJobInfo, MemTableInfo, TableFileCreationInfo, TableFileDeletionInfo, WriteStallInfo,
};
use pumice_binding::database::Slot;
use pumice_binding::reports::{
    CompactionInfo, Properties, Stall, background_error_reason, flush_reason,
};

use super::told;
use crate::ffi::call::{Result, status_object};
use crate::ffi::env::{Env, Method, Object};
use crate::ffi::handle;
use crate::ffi::vm::Global;
use crate::maps::table_properties;

/// Java's number of an event, and the method that hears of it.
const EVENTS: [(u32, &str, &str); 9] = [
    (0, "onFlushCompletedProxy", "(JLorg/rocksdb/FlushJobInfo;)V"),
    (1, "onFlushBeginProxy", "(JLorg/rocksdb/FlushJobInfo;)V"),
    (2, "onTableFileDeleted", "(Lorg/rocksdb/TableFileDeletionInfo;)V"),
    (3, "onCompactionBeginProxy", "(JLorg/rocksdb/CompactionJobInfo;)V"),
    (4, "onCompactionCompletedProxy", "(JLorg/rocksdb/CompactionJobInfo;)V"),
    (5, "onTableFileCreated", "(Lorg/rocksdb/TableFileCreationInfo;)V"),
    (7, "onMemTableSealed", "(Lorg/rocksdb/MemTableInfo;)V"),
    (9, "onExternalFileIngestedProxy", "(JLorg/rocksdb/ExternalFileIngestionInfo;)V"),
    (10, "onBackgroundErrorProxy", "(BLorg/rocksdb/Status;)V"),
];
const STALL: (u32, &str, &str) =
    (11, "onStallConditionsChanged", "(Lorg/rocksdb/WriteStallInfo;)V");

/// A listener of Java.
#[derive(Debug)]
pub struct JavaListener {
    object: Global,
    methods: Vec<(u32, Method)>,
}

impl JavaListener {
    /// The listener `object`, which hears of the events whose bits are set.
    ///
    /// # Errors
    /// A Java exception.
    pub fn new(env: Env<'_>, object: Object<'_>, events: u64) -> Result<JavaListener> {
        let class = env.class_of(object);
        let mut methods = Vec::new();
        for (number, name, signature) in EVENTS.into_iter().chain([STALL]) {
            if events >> number & 1 == 1 {
                methods.push((number, env.method(class, name, signature)?));
            }
        }
        Ok(JavaListener { object: Global::new(env, object), methods })
    }

    /// The object of Java.
    pub fn object<'a>(&self) -> Object<'a> {
        self.object.object()
    }

    /// The listener for one database.
    pub fn of_database(self: &Arc<Self>, slot: &Arc<Slot>) -> Arc<dyn EventListener> {
        Arc::new(Attached { listener: Arc::clone(self), slot: Arc::clone(slot) })
    }
}

struct Attached {
    listener: Arc<JavaListener>,
    slot: Arc<Slot>,
}

type Arguments = Vec<jvalue>;

impl Attached {
    fn tell(&self, event: u32, arguments: impl FnOnce(Env<'_>) -> Result<Arguments>) {
        let methods = self.listener.methods.iter();
        let Some((_, method)) = methods.copied().find(|(number, _)| *number == event) else {
            return;
        };
        told(|env| {
            let arguments = arguments(env)?;
            env.call_void(self.listener.object(), method, &arguments)
        });
    }

    fn database(&self) -> jvalue {
        jvalue { j: self.slot.address() as i64 }
    }

    fn flush(&self, event: u32, info: &FlushJobInfo) {
        self.tell(event, |env| {
            let properties = table_properties(env, &Properties::default())?;
            let arguments = [
                jvalue { j: i64::from(info.cf_id) },
                text(env, &info.cf_name)?,
                path(env, &info.file_path)?,
                jvalue { j: 0 },
                jvalue { i: info.job_id as i32 },
                jvalue { z: info.triggered_writes_slowdown },
                jvalue { z: info.triggered_writes_stop },
                jvalue { j: info.smallest_seqno.cast_signed() },
                jvalue { j: info.largest_seqno.cast_signed() },
                object(properties),
                jvalue { b: flush_reason(info.flush_reason) as i8 },
            ];
            let signature =
                "(JLjava/lang/String;Ljava/lang/String;JIZZJJLorg/rocksdb/TableProperties;B)V";
            let info = env.construct("org/rocksdb/FlushJobInfo", signature, &arguments)?;
            Ok(vec![self.database(), object(info)])
        });
    }

    fn compaction(&self, event: u32, info: &CompactionJobInfo) {
        if !self.listener.methods.iter().any(|(number, _)| *number == event) {
            return;
        }
        // Java's object does not own the report.
        let number = handle::give(CompactionInfo::new(info, Path::new("")));
        self.tell(event, |env| {
            let class = "org/rocksdb/CompactionJobInfo";
            let info = env.construct(class, "(J)V", &[jvalue { j: number }])?;
            Ok(vec![self.database(), object(info)])
        });
        // A listener that ended it is to blame itself.
        handle::take::<CompactionInfo>(number).ok();
    }
}

fn object(object: Object<'_>) -> jvalue {
    jvalue { l: object.raw() }
}

fn text(env: Env<'_>, text: &str) -> Result<jvalue> {
    env.new_text(text).map(object)
}

fn path(env: Env<'_>, path: &Path) -> Result<jvalue> {
    text(env, &path.to_string_lossy())
}

impl EventListener for Attached {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        self.flush(1, info);
    }
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.flush(0, info);
    }
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        self.compaction(3, info);
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.compaction(4, info);
    }
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        self.tell(5, |env| {
            let arguments = [
                jvalue { j: info.file_size.cast_signed() },
                object(table_properties(env, &Properties::default())?),
                object(status_object(env, info.error.as_ref())?),
                text(env, "")?,
                text(env, &info.cf_name)?,
                path(env, &info.file_path)?,
                jvalue { i: info.job_id as i32 },
                jvalue { b: info.reason as i8 },
            ];
            let signature = concat!(
                "(JLorg/rocksdb/TableProperties;Lorg/rocksdb/Status;",
                "Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;IB)V",
            );
            let info = env.construct("org/rocksdb/TableFileCreationInfo", signature, &arguments)?;
            Ok(vec![object(info)])
        });
    }
    fn on_table_file_deleted(&self, info: &TableFileDeletionInfo) {
        self.tell(2, |env| {
            let arguments = [
                text(env, "")?,
                path(env, &info.file_path)?,
                jvalue { i: info.job_id as i32 },
                object(status_object(env, info.error.as_ref())?),
            ];
            let signature = "(Ljava/lang/String;Ljava/lang/String;ILorg/rocksdb/Status;)V";
            let info = env.construct("org/rocksdb/TableFileDeletionInfo", signature, &arguments)?;
            Ok(vec![object(info)])
        });
    }
    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        self.tell(7, |env| {
            let arguments = [
                text(env, &info.cf_name)?,
                jvalue { j: info.first_seqno.cast_signed() },
                jvalue { j: info.earliest_seqno.cast_signed() },
                jvalue { j: info.num_entries.cast_signed() },
                jvalue { j: info.num_deletes.cast_signed() },
            ];
            let signature = "(Ljava/lang/String;JJJJ)V";
            let info = env.construct("org/rocksdb/MemTableInfo", signature, &arguments)?;
            Ok(vec![object(info)])
        });
    }
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        self.tell(9, |env| {
            let properties = Properties::new(&info.table_properties);
            let arguments = [
                text(env, &info.cf_name)?,
                path(env, &info.external_file_path)?,
                path(env, &info.internal_file_path)?,
                jvalue { j: info.global_seqno.cast_signed() },
                object(table_properties(env, &properties)?),
            ];
            let signature = concat!(
                "(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;",
                "JLorg/rocksdb/TableProperties;)V",
            );
            let info =
                env.construct("org/rocksdb/ExternalFileIngestionInfo", signature, &arguments)?;
            Ok(vec![self.database(), object(info)])
        });
    }
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &Error) {
        self.tell(10, |env| {
            // Java knows four reasons.
            let reason = background_error_reason(reason).min(3) as i8;
            Ok(vec![jvalue { b: reason }, object(status_object(env, Some(error))?)])
        });
    }
    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        self.tell(STALL.0, |env| {
            let report = Stall::new(info);
            let arguments = [
                text(env, &info.cf_name)?,
                jvalue { b: report.current.0 as i8 },
                jvalue { b: report.previous.0 as i8 },
            ];
            let signature = "(Ljava/lang/String;BB)V";
            let info = env.construct("org/rocksdb/WriteStallInfo", signature, &arguments)?;
            Ok(vec![object(info)])
        });
    }
}
