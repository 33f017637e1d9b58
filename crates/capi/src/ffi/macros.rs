//! `c_api!`: C functions from safe ones.
//!
//! A function of the block is written with Rust's types; the macro makes the C function, with the
//! C arguments that each of its arguments stands for, and passes values. `errptr: Fail` at the end
//! is the place of the error message: the body is then a `Result`. Some arguments stand for several
//! of C's:
//!
//! | type | C's arguments |
//! |---|---|
//! | `Bytes`, `OptBytes` | pointer, length; the second gives None for null |
//! | `Keys`, `IntKeys` | count (`size_t` or `int`), pointers, lengths |
//! | `Ranges` | count (`int`), pointers and lengths of starts, of ends |
//! | `Texts`, `Families` .. | see `lists` |
//!
//! Every other type implements `FromC`.

/// See the module.
macro_rules! c_api {
    ($( $(#[$meta:meta])* fn $name:ident ( $($args:tt)* ) $(-> $ret:ty)? $body:block )*) => {
        $( $crate::ffi::macros::c_fn! {
            [$(#[$meta])*] $name [$($ret)?] $body [] [] $($args)* ,
        } )*
    };
}
pub(crate) use c_api;

/// The result type of a function: nothing if it is not given.
macro_rules! result_type {
    () => {
        ()
    };
    ($ret:ty) => {
        $ret
    };
}
pub(crate) use result_type;

/// Takes the arguments of one function from the left.
macro_rules! c_fn {
    // All taken, the last is the place of the error.
    ([$($meta:tt)*] $name:ident [$($ret:ty)?] $body:block [$($raw:tt)*] [$($take:tt)*]
     $errptr:ident : Fail $(,)*) => {
        $($meta)*
        #[allow(unsafe_code, missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($raw)* $errptr: *mut *mut ::std::ffi::c_char,
        ) -> <$crate::ffi::macros::result_type!($($ret)?) as $crate::ffi::into::IntoC>::Raw {
            type CResult = $crate::ffi::macros::result_type!($($ret)?);
            #[allow(dead_code)]
            const NAME: &str = stringify!($name);
            // SAFETY: invariant 2 of ffi.
            unsafe {
                $crate::ffi::call::reporting::<CResult>(NAME, $errptr, move || {
                    $crate::ffi::macros::taken! { NAME $($take)* }
                    $body
                })
            }
        }
    };
    // All taken.
    ([$($meta:tt)*] $name:ident [$($ret:ty)?] $body:block [$($raw:tt)*] [$($take:tt)*] $(,)*) => {
        $($meta)*
        #[allow(unsafe_code, missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($raw)*
        ) -> <$crate::ffi::macros::result_type!($($ret)?) as $crate::ffi::into::IntoC>::Raw {
            type CResult = $crate::ffi::macros::result_type!($($ret)?);
            #[allow(dead_code)]
            const NAME: &str = stringify!($name);
            $crate::ffi::call::plain::<CResult>(NAME, move || {
                $crate::ffi::macros::taken! { NAME $($take)* }
                #[allow(unused_mut)]
                let mut body = move || -> CResult { $body };
                Ok(body())
            })
        }
    };
    // Bytes by pointer and length.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : Bytes , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *const ::std::ffi::c_char, l: usize,]
            [$($take)* $a = $crate::ffi::from::bytes(p, l);] $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : BytesMut , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *mut ::std::ffi::c_char, l: usize,]
            [$($take)* $a = $crate::ffi::from::bytes_mut(p, l);] $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : OptBytes , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *const ::std::ffi::c_char, l: usize,]
            [$($take)* $a = Some($crate::ffi::from::bytes(p, l).filter(|_| !p.is_null()));]
            $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : OptBytesMut , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *mut ::std::ffi::c_char, l: usize,]
            [$($take)* $a = Some($crate::ffi::from::bytes(p, l).filter(|_| !p.is_null()));]
            $($rest)* }
    };
    // Bytes that stay the caller's.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : Kept , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *const ::std::ffi::c_char, l: usize,]
            [$($take)* $a = Some($crate::ffi::from::Kept::new(p, l));] $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : Keys , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: usize, p: *const *const ::std::ffi::c_char, l: *const usize,]
            [$($take)* $a = $crate::ffi::lists::keys(c, p, l);] $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : IntKeys , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: ::std::ffi::c_int, p: *const *const ::std::ffi::c_char, l: *const usize,]
            [$($take)* $a = $crate::ffi::lists::keys(usize::try_from(c).unwrap_or(0), p, l);]
            $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : Ranges , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: ::std::ffi::c_int,
             p: *const *const ::std::ffi::c_char, l: *const usize,
             q: *const *const ::std::ffi::c_char, k: *const usize,]
            [$($take)* $a = $crate::ffi::lists::ranges(c, p, l, q, k);] $($rest)* }
    };
    // Ranges and places for their sizes.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : SizesOut , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: ::std::ffi::c_int,
             p: *const *const ::std::ffi::c_char, l: *const usize,
             q: *const *const ::std::ffi::c_char, k: *const usize, s: *mut u64,]
            [$($take)* $a = $crate::ffi::lists::sizes_out(
                $crate::ffi::lists::ranges(c, p, l, q, k), s);]
            $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : SizesFlagsOut , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: ::std::ffi::c_int,
             p: *const *const ::std::ffi::c_char, l: *const usize,
             q: *const *const ::std::ffi::c_char, k: *const usize, f: u8, s: *mut u64,]
            [$($take)* $a = $crate::ffi::lists::sizes_out(
                $crate::ffi::lists::ranges(c, p, l, q, k), s).map(|sizes| (sizes, f));]
            $($rest)* }
    };
    // Texts: pointers, count.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : Texts , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *const *const ::std::ffi::c_char, c: usize,]
            [$($take)* $a = $crate::ffi::lists::texts(c, p);] $($rest)* }
    };
    // Names and values: count, pointers, pointers.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : Settings , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: ::std::ffi::c_int, p: *const *const ::std::ffi::c_char,
             q: *const *const ::std::ffi::c_char,]
            [$($take)* $a = $crate::ffi::lists::settings(c, p, q);] $($rest)* }
    };
    // Names and where their count goes: count, pointers, place.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : NamesOut , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: ::std::ffi::c_int, p: *const *const ::std::ffi::c_char, o: *mut usize,]
            [$($take)* $a = $crate::ffi::lists::texts(usize::try_from(c).unwrap_or(0), p)
                .zip($crate::ffi::from::FromC::from_c(NAME, o))
                .map(|names: (Vec<String>, $crate::ffi::from::Out<'_, usize>)| names);]
            $($rest)* }
    };
    // Numbers: pointer, count.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : Ints , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *const ::std::ffi::c_int, c: usize,]
            [$($take)* $a = $crate::ffi::lists::numbers(p, c);] $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : IntsMut , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *mut ::std::ffi::c_int, c: usize,]
            [$($take)* $a = $crate::ffi::lists::numbers(p, c);] $($rest)* }
    };
    // Column families: pointers, count.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : List<$t:ty> , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *mut *mut $t, c: usize,]
            [$($take)* $a = $crate::ffi::lists::handles(NAME, p, c);] $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : IntList<$t:ty> , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *mut *mut $t, c: ::std::ffi::c_int,]
            [$($take)* $a =
                $crate::ffi::lists::handles(NAME, p, usize::try_from(c).unwrap_or(0));]
            $($rest)* }
    };
    // Handles and places for others: pointers, places, count.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : NewHandles<'_, $f:ty, $t:ty> , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* p: *mut *mut $f, q: *mut *mut $t, c: usize,]
            [$($take)* $a = $crate::ffi::lists::new_handles::<$f, $t>(NAME, p, q, c);] $($rest)* }
    };
    // The families of an open: count, names, options, handles.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : Families , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: ::std::ffi::c_int, p: *const *const ::std::ffi::c_char,
             o: *mut *mut $crate::ffi::types::rocksdb_options_t,
             h: *mut *mut $crate::ffi::types::rocksdb_column_family_handle_t,]
            [$($take)* $a = $crate::ffi::lists::families(NAME, c, p, o, h);] $($rest)* }
    };
    // Values of many keys: count, keys, lengths, values, lengths, errors.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : MultiGet , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: usize, p: *const *const ::std::ffi::c_char, l: *const usize,
             v: *mut *mut ::std::ffi::c_char, s: *mut usize, e: *mut *mut ::std::ffi::c_char,]
            [$($take)* $a = $crate::ffi::lists::multi_get(
                NAME, std::ptr::null_mut(), (c, p, l), (v, s, e));]
            $($rest)* }
    };
    // The same, a column family for each key in front.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : MultiGetCf , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* f: *mut *mut $crate::ffi::types::rocksdb_column_family_handle_t,
             c: usize, p: *const *const ::std::ffi::c_char, l: *const usize,
             v: *mut *mut ::std::ffi::c_char, s: *mut usize, e: *mut *mut ::std::ffi::c_char,]
            [$($take)* $a = $crate::ffi::lists::multi_get(NAME, f, (c, p, l), (v, s, e));]
            $($rest)* }
    };
    // The same two, and places for timestamps and for what is newer than the snapshot.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : MetadataGet , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: usize, p: *const *const ::std::ffi::c_char, l: *const usize,
             v: *mut *mut ::std::ffi::c_char, s: *mut usize,
             t: *mut *mut ::std::ffi::c_char, k: *mut usize, w: *mut u8,
             e: *mut *mut ::std::ffi::c_char,]
            [$($take)* $a = $crate::ffi::lists::metadata_get($crate::ffi::lists::multi_get(
                NAME, std::ptr::null_mut(), (c, p, l), (v, s, e)), (t, k), w);]
            $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : MetadataGetCf , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* f: *mut *mut $crate::ffi::types::rocksdb_column_family_handle_t,
             c: usize, p: *const *const ::std::ffi::c_char, l: *const usize,
             v: *mut *mut ::std::ffi::c_char, s: *mut usize,
             t: *mut *mut ::std::ffi::c_char, k: *mut usize, w: *mut u8,
             e: *mut *mut ::std::ffi::c_char,]
            [$($take)* $a = $crate::ffi::lists::metadata_get($crate::ffi::lists::multi_get(
                NAME, f, (c, p, l), (v, s, e)), (t, k), w);]
            $($rest)* }
    };
    // The same two without places for what is newer.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : TimedGet , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: usize, p: *const *const ::std::ffi::c_char, l: *const usize,
             v: *mut *mut ::std::ffi::c_char, s: *mut usize,
             t: *mut *mut ::std::ffi::c_char, k: *mut usize,
             e: *mut *mut ::std::ffi::c_char,]
            [$($take)* $a = $crate::ffi::lists::metadata_get($crate::ffi::lists::multi_get(
                NAME, std::ptr::null_mut(), (c, p, l), (v, s, e)), (t, k), std::ptr::null_mut());]
            $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : TimedGetCf , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* f: *mut *mut $crate::ffi::types::rocksdb_column_family_handle_t,
             c: usize, p: *const *const ::std::ffi::c_char, l: *const usize,
             v: *mut *mut ::std::ffi::c_char, s: *mut usize,
             t: *mut *mut ::std::ffi::c_char, k: *mut usize,
             e: *mut *mut ::std::ffi::c_char,]
            [$($take)* $a = $crate::ffi::lists::metadata_get($crate::ffi::lists::multi_get(
                NAME, f, (c, p, l), (v, s, e)), (t, k), std::ptr::null_mut());]
            $($rest)* }
    };
    // Pinned values of many keys: count, keys, lengths, values, errors.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : PinnedGet , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: usize, p: *const *const ::std::ffi::c_char, l: *const usize,
             v: *mut *mut $crate::ffi::types::rocksdb_pinnableslice_t,
             e: *mut *mut ::std::ffi::c_char,]
            [$($take)* $a = $crate::ffi::lists::pinned_get(
                $crate::ffi::lists::keys(c, p, l), v, e);]
            $($rest)* }
    };
    // The same with slices as keys.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : PinnedGetSlices , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: usize, p: *const $crate::ffi::into::Slice,
             v: *mut *mut $crate::ffi::types::rocksdb_pinnableslice_t,
             e: *mut *mut ::std::ffi::c_char,]
            [$($take)* $a = $crate::ffi::lists::pinned_get($crate::ffi::lists::slices(c, p), v, e);]
            $($rest)* }
    };
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : Slices , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* c: usize, p: *const $crate::ffi::into::Slice,]
            [$($take)* $a = $crate::ffi::lists::slices(c, p);] $($rest)* }
    };
    // One C argument.
    ([$($m:tt)*] $n:ident [$($r:ty)?] $b:block [$($raw:tt)*] [$($take:tt)*]
     $a:ident : $t:ty , $($rest:tt)*) => {
        $crate::ffi::macros::c_fn! { [$($m)*] $n [$($r)?] $b
            [$($raw)* r: <$t as $crate::ffi::from::FromC>::Raw,]
            [$($take)* $a = <$t as $crate::ffi::from::FromC>::from_c(NAME, r);] $($rest)* }
    };
}
pub(crate) use c_fn;

/// The values of the arguments; a null pointer that must not be one is an error with its name.
macro_rules! taken {
    ($name:ident $($a:ident = $value:expr;)*) => {
        $(
            // SAFETY: invariants 1 and 3 of ffi.
            #[allow(unused_unsafe, clippy::useless_conversion)]
            let $a = unsafe { $value }.ok_or_else(|| {
                $crate::ffi::call::missing($name, stringify!($a))
            })?;
        )*
    };
}
pub(crate) use taken;
