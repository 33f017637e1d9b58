//! Values as results of native methods.

use jni_sys::jobject;

use super::call::Result;
use super::env::{Env, Object};
use super::handle::{self, Held};

/// What the virtual machine gets for a value.
pub trait IntoJava<Raw> {
    /// Makes it.
    ///
    /// # Errors
    /// There is no memory for an object.
    fn into_java(self, env: Env<'_>) -> Result<Raw>;
}

/// See [`IntoJava`].
///
/// # Errors
/// As there.
#[inline]
pub fn into<Raw, T: IntoJava<Raw>>(env: Env<'_>, value: T) -> Result<Raw> {
    value.into_java(env)
}

macro_rules! plain {
    ($($kind:ty => $raw:ty: $env:ident $value:ident $make:expr;)+) => {$(
        impl IntoJava<$raw> for $kind {
            #[inline]
            fn into_java(self, $env: Env<'_>) -> Result<$raw> {
                let $value = self;
                $make
            }
        }
    )+};
}
plain! {
    () => (): _env _value Ok(());
    bool => bool: _env value Ok(value);
    i8 => i8: _env value Ok(value);
    i16 => i16: _env value Ok(value);
    i32 => i32: _env value Ok(value);
    i64 => i64: _env value Ok(value);
    u64 => i64: _env value Ok(value.cast_signed());
    u32 => i64: _env value Ok(i64::from(value));
    usize => i64: _env value Ok(i64::try_from(value).unwrap_or(i64::MAX));
    f64 => f64: _env value Ok(value);
    Object<'_> => jobject: _env value Ok(value.raw());
    String => jobject: env value env.new_text(&value).map(Object::raw);
    &str => jobject: env value env.new_text(value).map(Object::raw);
    &[u8] => jobject: env value env.new_bytes(value).map(Object::raw);
    Vec<u8> => jobject: env value env.new_bytes(&value).map(Object::raw);
    Vec<i64> => jobject: env value env.new_longs(&value).map(Object::raw);
    Vec<i32> => jobject: env value env.new_ints(&value).map(Object::raw);
    Vec<String> => jobject: env value {
        let array = env.new_objects("java/lang/String", value.len())?;
        for (at, text) in value.iter().enumerate() {
            let text = env.new_text(text)?;
            env.set_element(array, at, text)?;
            env.forget(text);
        }
        Ok(array.raw())
    };
    Vec<Option<Vec<u8>>> => jobject: env value {
        let array = env.new_objects("[B", value.len())?;
        for (at, bytes) in value.iter().enumerate() {
            let Some(bytes) = bytes else { continue };
            let bytes = env.new_bytes(bytes)?;
            env.set_element(array, at, bytes)?;
            env.forget(bytes);
        }
        Ok(array.raw())
    };
    pumice::PinnedSlice => jobject: env value env.new_bytes(&value).map(Object::raw);
}

impl<T: IntoJava<jobject>> IntoJava<jobject> for Option<T> {
    #[inline]
    fn into_java(self, env: Env<'_>) -> Result<jobject> {
        self.map_or(Ok(std::ptr::null_mut()), |value| value.into_java(env))
    }
}

/// A new object that Java holds.
#[derive(Debug)]
pub struct New<T>(pub T);

impl<T: Held> IntoJava<i64> for New<T> {
    fn into_java(self, _env: Env<'_>) -> Result<i64> {
        Ok(handle::give(self.0))
    }
}

impl<T: Held> IntoJava<i64> for Option<New<T>> {
    fn into_java(self, env: Env<'_>) -> Result<i64> {
        self.map_or(Ok(0), |object| object.into_java(env))
    }
}

/// New objects that Java holds.
#[derive(Debug)]
pub struct NewList<T>(pub Vec<T>);

impl<T: Held> IntoJava<jobject> for NewList<T> {
    fn into_java(self, env: Env<'_>) -> Result<jobject> {
        let numbers: Vec<i64> = self.0.into_iter().map(handle::give).collect();
        env.new_longs(&numbers).map(Object::raw)
    }
}
