//! The calls of one thread into the virtual machine.
//!
//! Thread safety: an `Env` belongs to its thread. References that it gives live until the native
//! method returns, or until the frame of a call-back ends.

use std::marker::PhantomData;

use jni_sys as sys;
use sys::{JNIEnv, jint, jobject, jvalue};

use super::call::{Failure, Result};

/// The current thread's.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    raw: *mut JNIEnv,
    life: PhantomData<&'a ()>,
}

/// A reference to an object, or null.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    raw: jobject,
    life: PhantomData<&'a ()>,
}

impl Object<'_> {
    /// No object.
    pub const NULL: Object<'static> = Object { raw: std::ptr::null_mut(), life: PhantomData };

    /// A reference of the virtual machine's.
    ///
    /// # Safety
    /// Invariant 1 of `ffi`.
    pub unsafe fn from_raw<'a>(raw: jobject) -> Object<'a> {
        Object { raw, life: PhantomData }
    }
    /// For the virtual machine.
    pub fn raw(self) -> jobject {
        self.raw
    }
    /// It is null.
    pub fn is_null(self) -> bool {
        self.raw.is_null()
    }
}

/// Calls a function of the table.
macro_rules! table {
    ($env:expr, $name:ident $(, $arg:expr)*) => {{
        let raw = $env.raw;
        // SAFETY: invariant 3 of ffi.
        #[allow(clippy::multiple_unsafe_ops_per_block, clippy::macro_metavars_in_unsafe)]
        let result = unsafe { ((**raw).v1_6.$name)(raw $(, $arg)*) };
        result
    }};
}

impl<'a> Env<'a> {
    /// The environment of the current thread.
    ///
    /// # Safety
    /// `raw` is the current thread's.
    pub unsafe fn from_raw(raw: *mut JNIEnv) -> Env<'a> {
        Env { raw, life: PhantomData }
    }

    fn object(self, raw: jobject) -> Object<'a> {
        Object { raw, life: PhantomData }
    }

    /// The object, or the exception that is pending because there is none.
    fn made(self, raw: jobject) -> Result<Object<'a>> {
        if raw.is_null() { Err(Failure::Pending) } else { Ok(self.object(raw)) }
    }

    /// The class of that name, as the caller of the native method sees it; names have slashes.
    ///
    /// # Errors
    /// There is none, which is then pending.
    pub fn class(self, name: &str) -> Result<Object<'a>> {
        if let Some(class) = super::vm::kept_class(name) {
            return Ok(class);
        }
        let name = zeroed(name);
        self.made(table!(self, FindClass, name.as_ptr().cast()))
    }

    /// The class of an object.
    pub fn class_of(self, object: Object<'_>) -> Object<'a> {
        self.object(table!(self, GetObjectClass, object.raw))
    }

    /// The method of a class.
    ///
    /// # Errors
    /// There is none.
    pub fn method(self, class: Object<'_>, name: &str, signature: &str) -> Result<Method> {
        let (name, signature) = (zeroed(name), zeroed(signature));
        let found =
            table!(self, GetMethodID, class.raw, name.as_ptr().cast(), signature.as_ptr().cast());
        if found.is_null() { Err(Failure::Pending) } else { Ok(Method(found)) }
    }

    /// The static method of a class.
    ///
    /// # Errors
    /// There is none.
    pub fn static_method(self, class: Object<'_>, name: &str, signature: &str) -> Result<Method> {
        let (name, signature) = (zeroed(name), zeroed(signature));
        let (name, signature) = (name.as_ptr().cast(), signature.as_ptr().cast());
        let found = table!(self, GetStaticMethodID, class.raw, name, signature);
        if found.is_null() { Err(Failure::Pending) } else { Ok(Method(found)) }
    }

    /// A new object of the class by the constructor with that signature.
    ///
    /// # Errors
    /// The exception of the constructor.
    pub fn construct(
        self,
        class: &str,
        signature: &str,
        arguments: &[jvalue],
    ) -> Result<Object<'a>> {
        let class = self.class(class)?;
        let constructor = self.method(class, "<init>", signature)?;
        self.made(table!(self, NewObjectA, class.raw, constructor.0, arguments.as_ptr()))
    }

    fn checked<T>(self, value: T) -> Result<T> {
        if self.pending() { Err(Failure::Pending) } else { Ok(value) }
    }

    /// An exception is pending.
    pub fn pending(self) -> bool {
        table!(self, ExceptionCheck)
    }

    /// Calls a method without a result.
    ///
    /// # Errors
    /// The method's exception.
    pub fn call_void(self, on: Object<'_>, method: Method, arguments: &[jvalue]) -> Result<()> {
        table!(self, CallVoidMethodA, on.raw, method.0, arguments.as_ptr());
        self.checked(())
    }

    /// Calls a method that gives an object.
    ///
    /// # Errors
    /// The method's exception.
    pub fn call_object(
        self,
        on: Object<'_>,
        method: Method,
        arguments: &[jvalue],
    ) -> Result<Object<'a>> {
        let found = table!(self, CallObjectMethodA, on.raw, method.0, arguments.as_ptr());
        self.checked(self.object(found))
    }

    /// Calls a method that gives a long.
    ///
    /// # Errors
    /// The method's exception.
    pub fn call_long(self, on: Object<'_>, method: Method, arguments: &[jvalue]) -> Result<i64> {
        let found = table!(self, CallLongMethodA, on.raw, method.0, arguments.as_ptr());
        self.checked(found)
    }

    /// Calls a method that gives an int.
    ///
    /// # Errors
    /// The method's exception.
    pub fn call_int(self, on: Object<'_>, method: Method, arguments: &[jvalue]) -> Result<i32> {
        let found = table!(self, CallIntMethodA, on.raw, method.0, arguments.as_ptr());
        self.checked(found)
    }

    /// Calls a method that gives a short.
    ///
    /// # Errors
    /// The method's exception.
    pub fn call_short(self, on: Object<'_>, method: Method, arguments: &[jvalue]) -> Result<i16> {
        let found = table!(self, CallShortMethodA, on.raw, method.0, arguments.as_ptr());
        self.checked(found)
    }

    /// Calls a method that gives a byte.
    ///
    /// # Errors
    /// The method's exception.
    pub fn call_byte(self, on: Object<'_>, method: Method, arguments: &[jvalue]) -> Result<i8> {
        let found = table!(self, CallByteMethodA, on.raw, method.0, arguments.as_ptr());
        self.checked(found)
    }

    /// Calls a method that gives a boolean.
    ///
    /// # Errors
    /// The method's exception.
    pub fn call_flag(self, on: Object<'_>, method: Method, arguments: &[jvalue]) -> Result<bool> {
        let found = table!(self, CallBooleanMethodA, on.raw, method.0, arguments.as_ptr());
        self.checked(found)
    }

    /// Calls a static method that gives an int.
    ///
    /// # Errors
    /// The method's exception.
    pub fn call_static_int(
        self,
        class: Object<'_>,
        method: Method,
        arguments: &[jvalue],
    ) -> Result<i32> {
        let found = table!(self, CallStaticIntMethodA, class.raw, method.0, arguments.as_ptr());
        self.checked(found)
    }

    /// Calls a static method that gives an object.
    ///
    /// # Errors
    /// The method's exception.
    pub fn call_static_object(
        self,
        class: Object<'_>,
        method: Method,
        arguments: &[jvalue],
    ) -> Result<Object<'a>> {
        let found = table!(self, CallStaticObjectMethodA, class.raw, method.0, arguments.as_ptr());
        self.checked(self.object(found))
    }

    /// The object of a static field.
    ///
    /// # Errors
    /// There is none.
    pub fn static_object(self, class: &str, name: &str, signature: &str) -> Result<Object<'a>> {
        let class = self.class(class)?;
        let (name, signature) = (zeroed(name), zeroed(signature));
        let (name, signature) = (name.as_ptr().cast(), signature.as_ptr().cast());
        let field = table!(self, GetStaticFieldID, class.raw, name, signature);
        if field.is_null() {
            return Err(Failure::Pending);
        }
        Ok(self.object(table!(self, GetStaticObjectField, class.raw, field)))
    }

    /// Takes the pending exception away.
    pub fn take_pending(self) -> Option<Object<'a>> {
        let found = table!(self, ExceptionOccurred);
        if found.is_null() {
            return None;
        }
        table!(self, ExceptionClear);
        Some(self.object(found))
    }

    /// Drops the pending exception.
    pub fn clear_pending(self) {
        table!(self, ExceptionClear);
    }

    /// Prints the pending exception on the standard error, and drops it.
    pub fn describe_pending(self) {
        table!(self, ExceptionDescribe);
        table!(self, ExceptionClear);
    }

    /// Throws an object.
    pub fn throw(self, exception: Object<'_>) {
        table!(self, Throw, exception.raw);
    }

    /// Throws a new exception with a text.
    pub fn throw_new(self, class: &str, text: &str) {
        let Ok(class) = self.class(class) else { return };
        let text = zeroed(text);
        table!(self, ThrowNew, class.raw, text.as_ptr().cast());
    }

    /// How many elements an array has.
    pub fn length(self, array: Object<'_>) -> usize {
        usize::try_from(table!(self, GetArrayLength, array.raw)).unwrap_or(0)
    }

    /// Copies a part of a byte array.
    ///
    /// # Errors
    /// The part is not in the array.
    pub fn read_bytes(self, array: Object<'_>, at: i32, into: &mut [u8]) -> Result<()> {
        let length = size(into.len())?;
        table!(self, GetByteArrayRegion, array.raw, at, length, into.as_mut_ptr().cast());
        self.checked(())
    }

    /// Copies to a part of a byte array.
    ///
    /// # Errors
    /// The part is not in the array.
    pub fn write_bytes(self, array: Object<'_>, at: i32, from: &[u8]) -> Result<()> {
        let length = size(from.len())?;
        table!(self, SetByteArrayRegion, array.raw, at, length, from.as_ptr().cast());
        self.checked(())
    }

    /// A new byte array.
    ///
    /// # Errors
    /// There is no memory, or more bytes than an array takes.
    pub fn new_bytes(self, bytes: &[u8]) -> Result<Object<'a>> {
        let length = size(bytes.len())?;
        let array = self.made(table!(self, NewByteArray, length))?;
        table!(self, SetByteArrayRegion, array.raw, 0, length, bytes.as_ptr().cast());
        Ok(array)
    }

    /// A new array of longs.
    ///
    /// # Errors
    /// As [`Env::new_bytes`].
    pub fn new_longs(self, values: &[i64]) -> Result<Object<'a>> {
        let length = size(values.len())?;
        let array = self.made(table!(self, NewLongArray, length))?;
        table!(self, SetLongArrayRegion, array.raw, 0, length, values.as_ptr());
        Ok(array)
    }

    /// A new array of ints.
    ///
    /// # Errors
    /// As [`Env::new_bytes`].
    pub fn new_ints(self, values: &[i32]) -> Result<Object<'a>> {
        let length = size(values.len())?;
        let array = self.made(table!(self, NewIntArray, length))?;
        table!(self, SetIntArrayRegion, array.raw, 0, length, values.as_ptr());
        Ok(array)
    }

    /// Sets the ints at the front of an array.
    ///
    /// # Errors
    /// The array has fewer.
    pub fn write_ints(self, array: Object<'_>, values: &[i32]) -> Result<()> {
        let length = size(values.len())?;
        table!(self, SetIntArrayRegion, array.raw, 0, length, values.as_ptr());
        self.checked(())
    }

    /// Sets the longs at the front of an array.
    ///
    /// # Errors
    /// The array has fewer.
    pub fn write_longs(self, array: Object<'_>, values: &[i64]) -> Result<()> {
        let length = size(values.len())?;
        table!(self, SetLongArrayRegion, array.raw, 0, length, values.as_ptr());
        self.checked(())
    }

    /// The longs of an array.
    ///
    /// # Errors
    /// The array is null.
    pub fn longs(self, array: Object<'_>) -> Result<Vec<i64>> {
        let mut values = vec![0; self.length(self.present(array)?)];
        let length = size(values.len())?;
        table!(self, GetLongArrayRegion, array.raw, 0, length, values.as_mut_ptr());
        self.checked(values)
    }

    /// The ints of an array.
    ///
    /// # Errors
    /// The array is null.
    pub fn ints(self, array: Object<'_>) -> Result<Vec<i32>> {
        let mut values = vec![0; self.length(self.present(array)?)];
        let length = size(values.len())?;
        table!(self, GetIntArrayRegion, array.raw, 0, length, values.as_mut_ptr());
        self.checked(values)
    }

    /// A new array of objects of the class, all null.
    ///
    /// # Errors
    /// As [`Env::new_bytes`].
    pub fn new_objects(self, class: &str, length: usize) -> Result<Object<'a>> {
        let class = self.class(class)?;
        let length = size(length)?;
        self.made(table!(self, NewObjectArray, length, class.raw, std::ptr::null_mut()))
    }

    /// The element of an array of objects.
    ///
    /// # Errors
    /// The array has fewer.
    pub fn element(self, array: Object<'_>, at: usize) -> Result<Object<'a>> {
        let found = table!(self, GetObjectArrayElement, array.raw, size(at)?);
        self.checked(self.object(found))
    }

    /// Sets the element of an array of objects.
    ///
    /// # Errors
    /// The array has fewer, or takes no such object.
    pub fn set_element(self, array: Object<'_>, at: usize, value: Object<'_>) -> Result<()> {
        table!(self, SetObjectArrayElement, array.raw, size(at)?, value.raw);
        self.checked(())
    }

    /// Ends a reference before its time, so that loops need few.
    pub fn forget(self, object: Object<'_>) {
        table!(self, DeleteLocalRef, object.raw);
    }

    /// Not null.
    ///
    /// # Errors
    /// NullPointerException.
    pub fn present<'b>(self, object: Object<'b>) -> Result<Object<'b>> {
        if object.is_null() {
            return Err(Failure::java("java/lang/NullPointerException", "an argument is null"));
        }
        Ok(object)
    }

    /// A new text.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new_text(self, text: &str) -> Result<Object<'a>> {
        let units: Vec<u16> = text.encode_utf16().collect();
        self.made(table!(self, NewString, units.as_ptr(), size(units.len())?))
    }

    /// A text as Rust's.
    ///
    /// # Errors
    /// It is null.
    pub fn text(self, text: Object<'_>) -> Result<String> {
        self.present(text)?;
        let length = table!(self, GetStringLength, text.raw);
        let mut units = vec![0u16; usize::try_from(length).unwrap_or(0)];
        table!(self, GetStringRegion, text.raw, 0, length, units.as_mut_ptr());
        self.checked(String::from_utf16_lossy(&units))
    }

    /// Address and capacity of a direct buffer; None for any other object.
    pub fn direct(self, buffer: Object<'_>) -> Option<(*mut u8, usize)> {
        let address = table!(self, GetDirectBufferAddress, buffer.raw);
        let capacity = table!(self, GetDirectBufferCapacity, buffer.raw);
        let capacity = usize::try_from(capacity).ok()?;
        if address.is_null() { None } else { Some((address.cast(), capacity)) }
    }

    /// A direct buffer over memory.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new_direct(self, memory: *mut u8, length: usize) -> Result<Object<'a>> {
        let length = i64::from(size(length)?);
        self.made(table!(self, NewDirectByteBuffer, memory.cast(), length))
    }

    /// A reference that outlives the call; see `vm::Global`.
    pub fn new_global(self, object: Object<'_>) -> jobject {
        table!(self, NewGlobalRef, object.raw)
    }

    /// Ends a global reference.
    pub fn delete_global(self, global: jobject) {
        table!(self, DeleteGlobalRef, global);
    }

    /// Runs `body` with references of its own, which end with it.
    ///
    /// # Errors
    /// The body's; there is no memory.
    pub fn frame<T>(self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        if table!(self, PushLocalFrame, 16) != 0 {
            return Err(Failure::Pending);
        }
        let result = body();
        table!(self, PopLocalFrame, std::ptr::null_mut());
        result
    }
}

/// A method of a class.
#[derive(Clone, Copy, Debug)]
pub struct Method(sys::jmethodID);

// SAFETY: a method's number is the virtual machine's, for all threads, while the class is there.
unsafe impl Send for Method {}
// SAFETY: as above.
unsafe impl Sync for Method {}

/// A length as Java counts.
///
/// # Errors
/// It is more than an array takes.
pub fn size(length: usize) -> Result<jint> {
    jint::try_from(length).map_err(|_| {
        let text = "Requested array size exceeds VM limit";
        Failure::java("java/lang/OutOfMemoryError", text)
    })
}

/// The text with a zero byte behind it, in the virtual machine's own UTF-8.
fn zeroed(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + 1);
    for unit in text.encode_utf16() {
        match unit {
            1..=0x7f => bytes.push(unit as u8),
            0 | 0x80..=0x7ff => {
                bytes.extend([0xc0 | (unit >> 6) as u8, 0x80 | (unit & 0x3f) as u8]);
            }
            _ => bytes.extend([
                0xe0 | (unit >> 12) as u8,
                0x80 | (unit >> 6 & 0x3f) as u8,
                0x80 | (unit & 0x3f) as u8,
            ]),
        }
    }
    bytes.push(0);
    bytes
}
