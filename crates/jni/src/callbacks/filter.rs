//! Compaction filters: the factories that Java writes, and the filter without Java that its
//! classes name.

use std::sync::Arc;

use jni_sys::jvalue;
use pumice::{CompactionFilter, CompactionFilterContext, CompactionFilterFactory, FilterDecision};

use super::needed;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Method, Object};
use crate::ffi::handle;
use crate::ffi::vm::Global;
use crate::objects::Filter;

/// A factory of Java.
#[derive(Debug)]
pub struct JavaFactory {
    object: Global,
    name: String,
    create: Method,
}

impl JavaFactory {
    /// The factory `object`.
    ///
    /// # Errors
    /// It has no name; a Java exception.
    pub fn new(env: Env<'_>, object: Object<'_>) -> Result<JavaFactory> {
        let class = env.class_of(object);
        let method = env.method(class, "name", "()Ljava/lang/String;")?;
        let name = env.call_object(object, method, &[])?;
        Ok(JavaFactory {
            name: env.text(name)?,
            object: Global::new(env, object),
            create: env.method(class, "createCompactionFilter", "(ZZ)J")?,
        })
    }
}

impl CompactionFilterFactory for JavaFactory {
    fn name(&self) -> &str {
        &self.name
    }
    fn create_compaction_filter(
        &self,
        context: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>> {
        needed(&self.name, |env| {
            let arguments = [
                jvalue { z: context.is_full_compaction },
                jvalue { z: context.is_manual_compaction },
            ];
            let number = env.call_long(self.object.object(), self.create, &arguments)?;
            // Java gives the filter away.
            if number == 0 { Ok(None) } else { Ok(Some(handle::take::<Filter>(number)?.0)) }
        })
    }
}

/// `RemoveEmptyValueCompactionFilter`.
#[derive(Debug)]
pub struct RemoveEmptyValue;

impl CompactionFilter for RemoveEmptyValue {
    fn name(&self) -> &str {
        "RemoveEmptyValueCompactionFilter"
    }
    fn filter(&self, _level: i32, _key: &[u8], value: &[u8]) -> FilterDecision {
        if value.is_empty() { FilterDecision::Remove } else { FilterDecision::Keep }
    }
}
