//! The virtual machine: loading, classes that are kept, threads of the engine that call Java.
//!
//! Thread safety: all of it may be used from any thread. A thread of the engine is attached as a
//! daemon at its first call into Java and detached when it ends. A fiber never calls Java: the
//! virtual machine checks the limits of the thread's own stack.

use std::ffi::c_void;
use std::sync::OnceLock;

use jni_sys::{JNI_VERSION_1_6, JavaVM, JavaVMAttachArgs, jint, jobject};
use pumice_port::task;

use super::call::{Failure, Result};
use super::env::{Env, Object};

struct Vm(*mut JavaVM);
// SAFETY: invariant 5 of ffi: it is for all threads.
unsafe impl Send for Vm {}
// SAFETY: as above.
unsafe impl Sync for Vm {}

static VM: OnceLock<Vm> = OnceLock::new();
static CLASSES: OnceLock<Vec<(&'static str, Global)>> = OnceLock::new();

/// Classes that are looked up once: those that are used on every call, and those that threads of
/// the engine need, whose class loader does not know RocksDB's.
const KEPT: &[&str] = &[
    "java/lang/String",
    "[B",
    "org/rocksdb/RocksDBException",
    "org/rocksdb/Status",
    "org/rocksdb/AbstractComparatorJniBridge",
    "org/rocksdb/InfoLogLevel",
    "org/rocksdb/FlushJobInfo",
    "org/rocksdb/CompactionJobInfo",
    "org/rocksdb/MemTableInfo",
    "org/rocksdb/TableFileCreationInfo",
    "org/rocksdb/TableFileDeletionInfo",
    "org/rocksdb/ExternalFileIngestionInfo",
    "org/rocksdb/WriteStallInfo",
    "org/rocksdb/TableProperties",
    "java/util/HashMap",
    "java/util/Map",
];

/// The `format_version` of tables that the loaded classes ask for: that of the RocksDB they were
/// published with, which can read no newer tables. Not set if they do not say.
static FORMAT_VERSION: OnceLock<i32> = OnceLock::new();

/// The `format_version` of the RocksDB whose classes are loaded, if they say it.
pub fn format_version() -> Option<i32> {
    FORMAT_VERSION.get().copied()
}

fn ask_format_version(env: Env<'_>) -> Result<i32> {
    const NAME: &str = "org/rocksdb/BlockBasedTableConfig";
    let config = env.construct(NAME, "()V", &[])?;
    env.call_int(config, env.method(env.class(NAME)?, "formatVersion", "()I")?, &[])
}

/// The class of that name if it is kept.
pub fn kept_class(name: &str) -> Option<Object<'static>> {
    let classes = CLASSES.get()?;
    let found = classes.iter().find(|(kept, _)| *kept == name)?;
    Some(found.1.object())
}

/// A reference that outlives calls.
#[derive(Debug)]
pub struct Global(jobject);
// SAFETY: a global reference is for all threads.
unsafe impl Send for Global {}
// SAFETY: as above.
unsafe impl Sync for Global {}

impl Global {
    /// Keeps an object.
    pub fn new(env: Env<'_>, object: Object<'_>) -> Global {
        Global(env.new_global(object))
    }
    /// The object.
    pub fn object<'a>(&self) -> Object<'a> {
        // SAFETY: invariant 5 of ffi.
        unsafe { Object::from_raw(self.0) }
    }
}

impl Drop for Global {
    fn drop(&mut self) {
        // A process that ends takes its references along.
        with_env(|env| {
            env.delete_global(self.0);
            Ok(())
        })
        .ok();
    }
}

/// Detaches the thread when it ends, if this library attached it.
struct Attached(std::cell::Cell<bool>);

impl Drop for Attached {
    fn drop(&mut self) {
        let Some(vm) = VM.get().filter(|_| self.0.get()) else { return };
        // SAFETY: invariant 5 of ffi; the thread was attached and calls Java no more.
        unsafe {
            ((**vm.0).v1_4.DetachCurrentThread)(vm.0);
        }
    }
}

pumice_port::task_local! {
    static ATTACHED: Attached = Attached(std::cell::Cell::new(false));
}

/// Runs `body` with the environment of the current thread, which is attached if need be.
///
/// # Errors
/// The body's. NotSupported on a fiber; a text if the virtual machine takes no thread.
pub fn with_env<T>(body: impl FnOnce(Env<'_>) -> Result<T>) -> Result<T> {
    let Some(vm) = VM.get() else {
        return Err(Failure::Text("the virtual machine is not there".to_string()));
    };
    if task::current().is_fiber() {
        return Err(super::call::missing("a call into Java from a fiber"));
    }
    let mut env: *mut c_void = std::ptr::null_mut();
    // SAFETY: invariant 5 of ffi.
    let mut found = unsafe { ((**vm.0).v1_4.GetEnv)(vm.0, &mut env, JNI_VERSION_1_6) };
    if found == jni_sys::JNI_EDETACHED {
        let mut arguments = JavaVMAttachArgs {
            version: JNI_VERSION_1_6,
            name: c"rocksdb".as_ptr().cast_mut(),
            group: std::ptr::null_mut(),
        };
        let arguments: *mut c_void = (&raw mut arguments).cast();
        // SAFETY: invariant 5 of ffi.
        found = unsafe { ((**vm.0).v1_4.AttachCurrentThreadAsDaemon)(vm.0, &mut env, arguments) };
        if found == jni_sys::JNI_OK {
            ATTACHED.with(|attached| attached.0.set(true));
        }
    }
    if found != jni_sys::JNI_OK || env.is_null() {
        return Err(Failure::Text(format!("the virtual machine takes no thread: {found}")));
    }
    // SAFETY: it is the current thread's.
    let env = unsafe { Env::from_raw(env.cast()) };
    body(env)
}

/// As [`with_env`], with references of its own, which end with it.
///
/// # Errors
/// As [`with_env`].
pub fn with_frame<T>(body: impl FnOnce(Env<'_>) -> Result<T>) -> Result<T> {
    with_env(|env| env.frame(|| body(env)))
}

/// Called by the virtual machine when the library is loaded.
///
/// # Safety
/// Only the virtual machine calls it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn JNI_OnLoad(vm: *mut JavaVM, _reserved: *mut c_void) -> jint {
    // A second load in another class loader is of another copy of the library.
    VM.set(Vm(vm)).ok();
    let kept = with_env(|env| {
        let mut classes = Vec::new();
        for name in KEPT {
            // What a jar has not is not needed with it.
            match env.class(name) {
                Ok(class) => classes.push((*name, Global::new(env, class))),
                Err(_) => env.clear_pending(),
            }
        }
        match ask_format_version(env) {
            Ok(version) => drop(FORMAT_VERSION.set(version)),
            Err(_) => env.clear_pending(),
        }
        Ok(classes)
    });
    match kept {
        Ok(classes) => {
            CLASSES.set(classes).ok();
            JNI_VERSION_1_6
        }
        Err(_) => jni_sys::JNI_ERR,
    }
}

/// Called by the virtual machine when the library's class loader is gone.
///
/// # Safety
/// Only the virtual machine calls it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn JNI_OnUnload(_vm: *mut JavaVM, _reserved: *mut c_void) {}
