//! Objects that C holds: boxes, given out as pointers and taken back once.
//!
//! Debug builds remember every handle with its type, so that one that is used with another type, or
//! after it was destroyed, ends the process with the function's name. Release builds pay nothing.

use super::call::{abort, guarded};

/// The handle of a new object.
pub fn give<T>(object: T) -> *mut T {
    give_box(Box::new(object))
}

/// The handle of an object in a box.
pub fn give_box<T>(object: Box<T>) -> *mut T {
    let handle = Box::into_raw(object);
    known::add(handle);
    handle
}

/// A handle that is no box of its own: C frees its memory and never destroys it.
pub fn lend<T>(handle: *mut T) -> *mut T {
    if !handle.is_null() {
        known::add(handle);
    }
    handle
}

/// C is about to free the memory of a handle that was lent.
pub fn forget<T>(handle: *mut T) {
    known::forget(handle);
}

/// A handle that is a part of another one: what was destroyed at its place before is forgotten.
pub fn part<T>(handle: *mut T) -> *mut T {
    known::revive(handle);
    handle
}

/// The handle of a new object with the values of its type.
pub fn create<T: Default>(function: &str) -> *mut T {
    guarded(function, || give(T::default()))
}

/// Takes an object back; null gives None.
///
/// # Safety
/// Invariant 1 of `ffi`; the handle is not used again.
pub unsafe fn take<T>(function: &str, handle: *mut T) -> Option<Box<T>> {
    if handle.is_null() {
        return None;
    }
    known::check(function, handle);
    known::remove(handle);
    // SAFETY: the handle came from `give`, and is given back.
    Some(unsafe { Box::from_raw(handle) })
}

/// Destroys an object; null is allowed.
///
/// # Safety
/// Invariant 1 of `ffi`; the handle is not used again.
pub unsafe fn destroy<T>(function: &'static str, handle: *mut T) {
    super::call::plain(function, || {
        // SAFETY: the caller's promise.
        drop(unsafe { take(function, handle) });
        Ok(())
    });
}

/// A copy of an object.
///
/// # Safety
/// Invariant 1 of `ffi`.
pub unsafe fn copy<T: Clone>(function: &'static str, handle: *mut T) -> *mut T {
    // SAFETY: the caller's promise.
    match unsafe { shared(function, handle) } {
        Some(object) => guarded(function, || give(object.clone())),
        None => abort(function, "the object is NULL"),
    }
}

/// The object, to read; null gives None.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
#[inline]
pub unsafe fn shared<'a, T>(function: &str, handle: *mut T) -> Option<&'a T> {
    known::check(function, handle);
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }
}

/// The object, to change; null gives None.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`; nobody else uses the object during the call.
#[inline]
pub unsafe fn exclusive<'a, T>(function: &str, handle: *mut T) -> Option<&'a mut T> {
    known::check(function, handle);
    // SAFETY: the caller's promise.
    unsafe { handle.as_mut() }
}

#[cfg(debug_assertions)]
mod known {
    use std::any::type_name;
    use std::collections::BTreeMap;

    use pumice_port::sync::Mutex;

    use super::abort;

    struct Handles {
        /// Type by address.
        live: BTreeMap<usize, &'static str>,
        /// Handles that were destroyed and whose address was not given out again.
        gone: BTreeMap<usize, &'static str>,
    }

    static HANDLES: Mutex<Handles> =
        Mutex::new(Handles { live: BTreeMap::new(), gone: BTreeMap::new() });

    pub fn add<T>(handle: *mut T) {
        let mut handles = HANDLES.lock();
        handles.gone.remove(&handle.addr());
        // Types without bytes share an address.
        if size_of::<T>() > 0 {
            handles.live.insert(handle.addr(), type_name::<T>());
        }
    }

    pub fn forget<T>(handle: *mut T) {
        HANDLES.lock().live.remove(&handle.addr());
    }

    pub fn revive<T>(handle: *mut T) {
        HANDLES.lock().gone.remove(&handle.addr());
    }

    pub fn remove<T>(handle: *mut T) {
        let mut handles = HANDLES.lock();
        if let Some(name) = handles.live.remove(&handle.addr()) {
            handles.gone.insert(handle.addr(), name);
        }
    }

    /// Parts of other handles are unknown, and allowed.
    pub fn check<T>(function: &str, handle: *mut T) {
        if handle.is_null() || size_of::<T>() == 0 {
            return;
        }
        let handles = HANDLES.lock();
        let (live, gone) = (handles.live.get(&handle.addr()), handles.gone.get(&handle.addr()));
        let wrong = match (live, gone) {
            (Some(name), _) if *name != type_name::<T>() => format!("the handle is a {name}"),
            (None, Some(name)) => format!("the {name} was destroyed"),
            _ => return,
        };
        drop(handles);
        abort(function, &wrong);
    }
}

#[cfg(not(debug_assertions))]
mod known {
    #[inline]
    pub fn add<T>(_handle: *mut T) {}
    #[inline]
    pub fn remove<T>(_handle: *mut T) {}
    #[inline]
    pub fn forget<T>(_handle: *mut T) {}
    #[inline]
    pub fn revive<T>(_handle: *mut T) {}
    #[inline]
    pub fn check<T>(_function: &str, _handle: *mut T) {}
}
