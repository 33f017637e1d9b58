//! The exported functions, which the build script writes: one for each row of the table of natives.
#![allow(non_snake_case, missing_docs, clippy::all, clippy::pedantic)]
#![allow(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc, unused_variables)]

use jni_sys::{JNIEnv, jobject};

use super::accessor;
use super::call::{enter, missing};
use super::from::from;
use super::into::into;
use crate::objects::{Options, ReadOptions, Values, WriteOptions};

include!(concat!(env!("OUT_DIR"), "/natives.rs"));
