//! Every function, generated or written by hand, has the types of the table of symbols: a constant
//! for each, which does not compile otherwise.
#![allow(clippy::type_complexity)]

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::api::*;
use crate::ffi::generated::*;

include!(concat!(env!("OUT_DIR"), "/signatures.rs"));
