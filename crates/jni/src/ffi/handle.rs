//! Objects that Java holds: numbers that name a slot and its generation.
//!
//! A slot is never unmapped and is used again with another generation, so that a number whose
//! object was closed, or that stands for another kind of object, is found out and becomes an
//! exception.
//! After 32,768 uses of one slot a number comes back; slots that became free are used last.
//!
//! Thread safety: slots are read without a lock; giving and taking has one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use pumice::Error;
use pumice_port::sync::Mutex;

use super::call::{Failure, Result};

/// A kind of object that Java holds.
pub trait Held: Sized + 'static {
    /// The name, for messages.
    const NAME: &'static str;
    /// The number, different for each kind.
    const KIND: u16;
}

/// Generation and kind in one word, so that both are read at once.
struct Slot {
    /// Generation << 16 | kind; kind 0 is free.
    state: AtomicU64,
    object: AtomicPtr<()>,
}

const ADDRESS_BITS: u32 = 48;
const GENERATIONS: u64 = 1 << 15;
/// Slots that stay free before the first is used again.
const REST: usize = 1024;

struct Free {
    slots: VecDeque<&'static Slot>,
}

static FREE: Mutex<Free> = Mutex::new(Free { slots: VecDeque::new() });

fn number(slot: &'static Slot, generation: u64) -> i64 {
    let address = std::ptr::from_ref(slot).expose_provenance() as u64;
    debug_assert!(address >> ADDRESS_BITS == 0);
    (address | generation << ADDRESS_BITS).cast_signed()
}

/// The number of a new object.
pub fn give<T: Held>(object: T) -> i64 {
    let mut free = FREE.lock();
    if free.slots.len() <= REST {
        let fresh: Vec<Slot> = (0..REST)
            .map(|_| Slot { state: AtomicU64::new(0), object: AtomicPtr::default() })
            .collect();
        free.slots.extend(fresh.leak().iter());
    }
    let slot = free.slots.pop_front().expect("there are slots");
    drop(free);
    let generation = (slot.state.load(Ordering::Relaxed) >> 16).wrapping_add(1) % GENERATIONS;
    slot.object.store(Box::into_raw(Box::new(object)).cast(), Ordering::Relaxed);
    slot.state.store(generation << 16 | u64::from(T::KIND), Ordering::Release);
    number(slot, generation)
}

/// The slot that `handle` names, if it is alive and of that kind.
#[inline]
fn find<T: Held>(handle: i64) -> Result<&'static Slot> {
    let bits = handle.cast_unsigned();
    let address = bits & ((1 << ADDRESS_BITS) - 1);
    if address == 0 {
        return Err(is_null(T::NAME));
    }
    let slot = std::ptr::with_exposed_provenance::<Slot>(address as usize);
    // SAFETY: invariant 2 of ffi.
    let slot = unsafe { &*slot };
    if slot.state.load(Ordering::Acquire) == bits >> ADDRESS_BITS << 16 | u64::from(T::KIND) {
        return Ok(slot);
    }
    Err(is_not_open(T::NAME))
}

#[cold]
#[inline(never)]
fn is_null(kind: &str) -> Failure {
    Failure::Status(Error::invalid_argument(format!("{kind} is null")))
}

#[cold]
#[inline(never)]
fn is_not_open(kind: &str) -> Failure {
    let text = format!("the handle is no open {kind}: it was closed, or is of another kind");
    Failure::Status(Error::invalid_argument(text))
}

/// The object, to read.
///
/// # Errors
/// InvalidArgument for 0, for an object that was ended, and for one of another kind.
///
/// # Safety
/// Invariant 2 of `ffi`.
#[inline]
pub unsafe fn shared<'a, T: Held>(handle: i64) -> Result<&'a T> {
    let object = find::<T>(handle)?.object.load(Ordering::Relaxed).cast::<T>();
    // SAFETY: invariant 2 of ffi.
    Ok(unsafe { &*object })
}

/// The object of a number in an array of Java's.
///
/// # Errors
/// As [`shared`].
pub fn read<'a, T: Held>(handle: i64) -> Result<&'a T> {
    // SAFETY: invariant 2 of ffi: arrays of handles are read during the call.
    unsafe { shared(handle) }
}

/// As [`read`], to change.
///
/// # Errors
/// As [`shared`].
pub fn write<'a, T: Held>(handle: i64) -> Result<&'a mut T> {
    // SAFETY: invariant 2 of ffi.
    unsafe { exclusive(handle) }
}

/// The object, to change.
///
/// # Errors
/// As [`shared`].
///
/// # Safety
/// Invariant 2 of `ffi`; nobody else uses the object during the call.
#[inline]
pub unsafe fn exclusive<'a, T: Held>(handle: i64) -> Result<&'a mut T> {
    let object = find::<T>(handle)?.object.load(Ordering::Relaxed).cast::<T>();
    // SAFETY: invariant 2 of ffi.
    Ok(unsafe { &mut *object })
}

/// Takes an object back.
///
/// # Errors
/// As [`shared`].
pub fn take<T: Held>(handle: i64) -> Result<Box<T>> {
    let slot = find::<T>(handle)?;
    let alive = slot.state.load(Ordering::Acquire);
    let gone = alive & !0xffff;
    // Of two that close at once one finds it gone.
    if slot.state.compare_exchange(alive, gone, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Err(Failure::Status(Error::invalid_argument(format!("{} was closed", T::NAME))));
    }
    let object = slot.object.swap(std::ptr::null_mut(), Ordering::Relaxed).cast::<T>();
    FREE.lock().slots.push_back(slot);
    // SAFETY: the pointer came from a box, and is taken once.
    Ok(unsafe { Box::from_raw(object) })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct A(u32);
    struct B;
    impl Held for A {
        const NAME: &'static str = "A";
        const KIND: u16 = 901;
    }
    impl Held for B {
        const NAME: &'static str = "B";
        const KIND: u16 = 902;
    }

    #[test]
    fn closed_and_wrong_handles_are_found_out() {
        let handle = give(A(7));
        assert!(handle > 0);
        // SAFETY: this test's own objects.
        unsafe {
            assert_eq!(shared::<A>(handle).expect("it is there").0, 7);
            assert!(shared::<B>(handle).is_err());
            assert!(shared::<A>(0).is_err());
        }
        assert_eq!(take::<A>(handle).expect("it is there").0, 7);
        assert!(take::<A>(handle).is_err());
        let others: Vec<i64> = (0..5000).map(|_| give(B)).collect();
        // SAFETY: as above.
        assert!(unsafe { shared::<A>(handle) }.is_err());
        assert!(!others.contains(&handle));
        for other in others {
            take::<B>(other).expect("it is there");
        }
    }
}
