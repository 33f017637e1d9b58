//! Comparators written in Java (`AbstractComparator`).
//!
//! The keys are copied into buffers for each call: direct ones, or arrays if the comparator's
//! options ask for them.

use std::cmp::Ordering;

use jni_sys::jvalue;
use pumice::CustomComparator;

use super::needed;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Method, Object};
use crate::ffi::vm::Global;

const BRIDGE: &str = "org/rocksdb/AbstractComparatorJniBridge";

/// A comparator of Java.
#[derive(Debug)]
pub struct JavaOrder {
    object: Global,
    name: String,
    direct: bool,
    compare: Method,
    separator: Method,
    successor: Method,
}

impl JavaOrder {
    /// The comparator `object`.
    ///
    /// # Errors
    /// It has no name; a Java exception.
    pub fn new(env: Env<'_>, object: Object<'_>, direct: bool) -> Result<JavaOrder> {
        let class = env.class_of(object);
        let method = env.method(class, "name", "()Ljava/lang/String;")?;
        let name = env.call_object(object, method, &[])?;
        let bridge = env.class(BRIDGE)?;
        let order = "Lorg/rocksdb/AbstractComparator;";
        let buffer = "Ljava/nio/ByteBuffer;I";
        let two = format!("({order}{buffer}{buffer})I");
        Ok(JavaOrder {
            name: env.text(name)?,
            object: Global::new(env, object),
            direct,
            compare: env.static_method(bridge, "compareInternal", &two)?,
            separator: env.static_method(bridge, "findShortestSeparatorInternal", &two)?,
            successor: env.static_method(
                bridge,
                "findShortSuccessorInternal",
                &format!("({order}{buffer})I"),
            )?,
        })
    }

    /// It is called with direct buffers.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// A buffer with the bytes of `memory`, which a direct buffer shares.
    fn buffer<'a>(&self, env: Env<'a>, memory: &mut [u8]) -> Result<Object<'a>> {
        if self.direct {
            return env.new_direct(memory.as_mut_ptr(), memory.len());
        }
        let array = env.new_bytes(memory)?;
        let class = env.class("java/nio/ByteBuffer")?;
        let wrap = env.static_method(class, "wrap", "([B)Ljava/nio/ByteBuffer;")?;
        env.call_static_object(class, wrap, &[jvalue { l: array.raw() }])
    }

    /// What Java left in a buffer of `buffer`.
    fn read_back(
        &self,
        env: Env<'_>,
        buffer: Object<'_>,
        memory: &mut Vec<u8>,
        length: i32,
    ) -> Result<()> {
        let length = usize::try_from(length).unwrap_or(0).min(memory.len());
        if !self.direct {
            let class = env.class_of(buffer);
            let method = env.method(class, "array", "()[B")?;
            let array = env.call_object(buffer, method, &[])?;
            env.read_bytes(array, 0, memory)?;
        }
        memory.truncate(length);
        Ok(())
    }
}

impl CustomComparator for JavaOrder {
    fn name(&self) -> &str {
        &self.name
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let result = needed(&self.name, |env| {
            let (mut a, mut b) = (a.to_vec(), b.to_vec());
            let (a, b) = (self.buffer(env, &mut a)?, self.buffer(env, &mut b)?);
            let arguments = [
                jvalue { l: self.object.object().raw() },
                jvalue { l: a.raw() },
                jvalue { i: -1 },
                jvalue { l: b.raw() },
                jvalue { i: -1 },
            ];
            env.call_static_int(env.class(BRIDGE)?, self.compare, &arguments)
        });
        result.cmp(&0)
    }
    /// Java has no way to say it, and RocksDB uses filters beside any comparator.
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        *start = needed(&self.name, |env| {
            let (mut memory, mut limit) = (start.clone(), limit.to_vec());
            let (start, limit) = (self.buffer(env, &mut memory)?, self.buffer(env, &mut limit)?);
            let arguments = [
                jvalue { l: self.object.object().raw() },
                jvalue { l: start.raw() },
                jvalue { i: -1 },
                jvalue { l: limit.raw() },
                jvalue { i: -1 },
            ];
            let length = env.call_static_int(env.class(BRIDGE)?, self.separator, &arguments)?;
            self.read_back(env, start, &mut memory, length)?;
            Ok(memory)
        });
    }
    fn find_short_successor(&self, key: &mut Vec<u8>) {
        *key = needed(&self.name, |env| {
            let mut memory = key.clone();
            let buffer = self.buffer(env, &mut memory)?;
            let arguments = [
                jvalue { l: self.object.object().raw() },
                jvalue { l: buffer.raw() },
                jvalue { i: -1 },
            ];
            let length = env.call_static_int(env.class(BRIDGE)?, self.successor, &arguments)?;
            self.read_back(env, buffer, &mut memory, length)?;
            Ok(memory)
        });
    }
}
