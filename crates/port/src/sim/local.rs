//! Statics of which each simulation has its own copy.
//!
//! Thread safety: inside a simulation its one thread, outside any.

use std::any::Any;
use std::sync::{Arc, OnceLock};

/// A value that exists once in the process and once per simulation, made at first use. A simulation
/// drops its values when its body has ended, in reverse order of creation.
pub struct Local<T: 'static> {
    init: fn() -> T,
    process: OnceLock<Arc<T>>,
}

impl<T: Send + Sync + 'static> Local<T> {
    /// A value that `init` makes. `init` must not suspend.
    pub const fn new(init: fn() -> T) -> Self {
        Local { init, process: OnceLock::new() }
    }

    /// The value of the calling task's world.
    pub fn get(&'static self) -> Arc<T> {
        match super::own() {
            Some(simulation) => simulation.local(std::ptr::from_ref(self).addr(), self.init),
            None => Arc::clone(self.process.get_or_init(|| Arc::new((self.init)()))),
        }
    }
}

/// The values of one simulation; found by the address of their [`Local`], which is a static. There
/// are few, so a list serves.
#[derive(Default)]
pub(super) struct Values(Vec<(usize, Arc<dyn Any + Send + Sync>)>);

impl Values {
    pub(super) fn get<T: Send + Sync + 'static>(&self, key: usize) -> Option<Arc<T>> {
        let (_, value) = self.0.iter().find(|(k, _)| *k == key)?;
        Arc::clone(value).downcast().ok()
    }
    pub(super) fn insert<T: Send + Sync + 'static>(&mut self, key: usize, value: Arc<T>) {
        self.0.push((key, value));
    }
    pub(super) fn pop(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.0.pop().map(|(_, value)| value)
    }
}
