//! Everything that touches the Java virtual machine: the only place of the crate with unsafe code.
//!
//! | module | role |
//! |---|---|
//! | `env` | the calls of a thread into the virtual machine |
//! | `from` | arguments of native methods as values |
//! | `into` | values as results |
//! | `call` | panics and errors at the boundary, exceptions |
//! | `handle` | objects that Java holds by number |
//! | `accessor` | what generated accessors of properties do |
//! | `vm` | loading, classes that are kept, threads of the engine that call Java |
//! | `generated` | the exported functions |
//!
//! Thread safety: as the objects behind the handles.
//!
//! Invariants, which unsafe blocks cite:
//! 1. The virtual machine calls an exported function with the arguments of the method's signature:
//!    `env` is the calling thread's, references are null or valid until the function returns.
//! 2. A handle's slot is never unmapped, so that a number that was a handle can be looked up at any
//!    time; an object whose slot matches in kind and generation is alive. Java does not end an
//!    object while another thread is in a call with it, nor change one that another thread uses.
//! 3. A function of the JNI table is called with the `env` of the current thread, with references
//!    of the types that it takes, and without a pending exception where it forbids one.
//! 4. The memory of a direct buffer is the caller's for the length of the call, and as long as its
//!    capacity says.
//! 5. The pointer to the virtual machine, once stored at load, is valid until the process ends;
//!    global references are deleted once.
//! 6. No panic leaves an exported function: it becomes an exception.

#![allow(unsafe_code)]

pub mod accessor;
pub mod call;
pub mod env;
pub mod from;
pub mod generated;
pub mod handle;
pub mod into;
pub mod vm;
