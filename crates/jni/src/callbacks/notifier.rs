//! Notifiers of transactions in Java (`AbstractTransactionNotifier`).
//!
//! A notifier may do anything with its transaction, end it too: Java is called once the native
//! method is over that the operation was made by, and borrows the transaction no more ([`Told`]).
//!
//! Thread safety: called by the thread that uses the transaction, outside of the engine.

use std::sync::Arc;

use jni_sys::jvalue;

use crate::ffi::call::Result;
use crate::ffi::env::{Env, Method, Object};
use crate::ffi::into::IntoJava;
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

    /// The snapshot of that handle was taken. What Java throws is printed, as by RocksDB's library:
    /// the operation has its own result.
    fn tell(&self, env: Env<'_>, snapshot: i64) {
        let arguments = [jvalue { j: snapshot }];
        if env.call_void(self.object.object(), self.created, &arguments).is_err() {
            env.describe_pending();
        }
    }
}

/// A notifier, and the handle of the snapshot that it is to hear of.
pub type News = Option<(Arc<JavaNotifier>, i64)>;

/// The result of an operation, and who hears of the snapshot that it took.
#[derive(Debug)]
pub struct Told<T> {
    /// The operation's.
    pub result: Result<T>,
    /// Whom it is told to.
    pub news: News,
}

impl<Raw, T: IntoJava<Raw>> IntoJava<Raw> for Told<T> {
    fn into_java(self, env: Env<'_>) -> Result<Raw> {
        if let Some((notifier, snapshot)) = self.news {
            // The operation itself may have thrown.
            let thrown = env.take_pending();
            notifier.tell(env, snapshot);
            thrown.into_iter().for_each(|exception| env.throw(exception));
        }
        self.result?.into_java(env)
    }
}
