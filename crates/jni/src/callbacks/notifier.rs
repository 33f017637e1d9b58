//! Notifiers of transactions in Java (`AbstractTransactionNotifier`).
//!
//! Thread safety: called by the thread that uses the transaction, outside of the engine.

use jni_sys::jvalue;

use crate::ffi::call::Result;
use crate::ffi::env::{Env, Method, Object};
use crate::ffi::vm::Global;

/// See the module.
#[derive(Debug)]
pub struct JavaNotifier {
    object: Global,
    created: Method,
}

impl JavaNotifier {
    /// The notifier `object`.
    ///
    /// # Errors
    /// A Java exception.
    pub fn new(env: Env<'_>, object: Object<'_>) -> Result<JavaNotifier> {
        // The method is private to this class.
        let class = env.class("org/rocksdb/AbstractTransactionNotifier")?;
        let created = env.method(class, "snapshotCreated", "(J)V")?;
        Ok(JavaNotifier { object: Global::new(env, object), created })
    }

    /// The snapshot of that handle was taken.
    ///
    /// # Errors
    /// A Java exception.
    pub fn tell(&self, env: Env<'_>, snapshot: i64) -> Result<()> {
        env.call_void(self.object.object(), self.created, &[jvalue { j: snapshot }])
    }
}
