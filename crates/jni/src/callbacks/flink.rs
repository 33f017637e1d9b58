//! `FlinkCompactionFilter` of frocksdbjni: drops state whose time to live is over.
//!
//! A value begins, behind `offset` bytes, with the time of its last change, 8 bytes big endian. It
//! is expired if that time plus the time to live is not after now. Values that are too short for a
//! time are kept. State of kind Value is judged whole, and merge operands are kept; of kind List,
//! values and operands are, by their first element, and then the expired elements at the front of a
//! value are cut off. Operands are kept as they are if some of their elements are live: the engine
//! asks of an operand only whether it goes.
//!
//! Thread safety: a filter belongs to one job; the configuration is set once and then read.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use jni_sys::jvalue;
use pumice::options::InfoLogLevel;
use pumice::{CompactionFilter, FilterDecision, Logger};

use super::needed;
use crate::ffi::env::Object;
use crate::ffi::vm::Global;

/// Bytes of a time.
const TIME_BYTES: usize = 8;

/// What kind of state is filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateType {
    /// Nothing is.
    Disabled,
    /// One value.
    Value,
    /// A list of elements.
    List,
}

/// How the elements of a list are found.
#[derive(Debug)]
pub enum Elements {
    /// They are not: the first stands for all.
    First,
    /// All have this many bytes.
    Fixed(usize),
    /// A factory of Java's filters knows.
    Java(Global),
}

/// What a filter does.
#[derive(Debug)]
pub struct Config {
    /// What kind of state.
    pub state: StateType,
    /// Bytes before the time.
    pub offset: usize,
    /// The time to live, in the unit of the clock.
    pub ttl: i64,
    /// Java is asked for the time again after so many entries.
    pub query_after: i64,
    /// Where the elements of a list are.
    pub elements: Elements,
}

/// A configuration that is set once, also after filters were made for it.
#[derive(Clone, Debug, Default)]
pub struct FlinkConfig(pub Arc<OnceLock<Config>>);

/// Whether what was changed at `time` is expired at `now`.
pub fn expired(time: i64, ttl: i64, now: i64) -> bool {
    let ttl = if time > 0 { ttl.min(i64::MAX - time) } else { ttl };
    time.wrapping_add(ttl) <= now
}

/// The time at `at`; None if there are too few bytes.
fn time(value: &[u8], at: usize) -> Option<i64> {
    let bytes = value.get(at..at.checked_add(TIME_BYTES)?)?;
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

/// The offset of the first element of `length` bytes that is not expired.
pub fn first_live(list: &[u8], offset: usize, length: usize, ttl: i64, now: i64) -> usize {
    let mut at = 0;
    while at < list.len() {
        match time(list, at.saturating_add(offset)) {
            Some(time) if expired(time, ttl, now) => at = at.saturating_add(length.max(1)),
            _ => return at,
        }
    }
    at
}

/// A filter of one job.
pub struct FlinkFilter {
    config: FlinkConfig,
    clock: Global,
    logger: Option<Arc<dyn Logger>>,
    now: AtomicI64,
    /// Entries until the clock is asked again.
    left: AtomicI64,
    element_filter: OnceLock<Global>,
}

impl FlinkFilter {
    /// A filter that asks `clock` for the time.
    pub fn new(config: FlinkConfig, clock: Global, logger: Option<Arc<dyn Logger>>) -> FlinkFilter {
        FlinkFilter {
            config,
            clock,
            logger,
            now: AtomicI64::new(i64::MIN),
            left: AtomicI64::new(0),
            element_filter: OnceLock::new(),
        }
    }

    fn now(&self, config: &Config) -> i64 {
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            let now = needed("TimeProvider", |env| {
                let clock = self.clock.object();
                let method = env.method(env.class_of(clock), "currentTimestamp", "()J")?;
                env.call_long(clock, method, &[])
            });
            self.now.store(now, Ordering::Relaxed);
            self.left.store(config.query_after.saturating_sub(1), Ordering::Relaxed);
        }
        self.now.load(Ordering::Relaxed)
    }

    fn decide(&self, config: &Config, value: &[u8]) -> FilterDecision {
        let Some(time) = time(value, config.offset) else { return FilterDecision::Keep };
        let now = self.now(config);
        if !expired(time, config.ttl, now) {
            return FilterDecision::Keep;
        }
        let live = match (&config.elements, config.state) {
            (Elements::Fixed(length), StateType::List) => {
                first_live(value, config.offset, *length, config.ttl, now)
            }
            (Elements::Java(factory), StateType::List) => {
                match self.ask(factory, value, config.ttl, now) {
                    i32::MAX => {
                        self.say("FlinkCompactionFilter: the list's elements cannot be read");
                        return FilterDecision::Keep;
                    }
                    offset => usize::try_from(offset).unwrap_or(0),
                }
            }
            _ => value.len(),
        };
        match value.get(live..) {
            None | Some([]) => FilterDecision::Remove,
            Some(_) if live == 0 => FilterDecision::Keep,
            Some(rest) => FilterDecision::ChangeValue(rest.to_vec()),
        }
    }

    /// The offset of the first live element, from Java.
    fn ask(&self, factory: &Global, list: &[u8], ttl: i64, now: i64) -> i32 {
        needed("ListElementFilter", |env| {
            let filter: Object<'_> = match self.element_filter.get() {
                Some(filter) => filter.object(),
                None => {
                    let name = "createListElementFilter";
                    let result = "()Lorg/rocksdb/FlinkCompactionFilter$ListElementFilter;";
                    let factory = factory.object();
                    let method = env.method(env.class_of(factory), name, result)?;
                    let made = env.call_object(factory, method, &[])?;
                    self.element_filter.get_or_init(|| Global::new(env, made)).object()
                }
            };
            let method = env.method(env.class_of(filter), "nextUnexpiredOffset", "([BJJ)I")?;
            let list = env.new_bytes(list)?;
            let arguments = [jvalue { l: list.raw() }, jvalue { j: ttl }, jvalue { j: now }];
            env.call_int(filter, method, &arguments)
        })
    }

    fn say(&self, text: &str) {
        if let Some(logger) = &self.logger {
            logger.log(InfoLogLevel::Error, format_args!("{text}"));
        }
    }
}

impl CompactionFilter for FlinkFilter {
    fn name(&self) -> &str {
        "FlinkCompactionFilter"
    }
    fn filter(&self, _level: i32, _key: &[u8], value: &[u8]) -> FilterDecision {
        match self.config.0.get() {
            Some(config) if config.state != StateType::Disabled => self.decide(config, value),
            _ => FilterDecision::Keep,
        }
    }
    fn filter_merge_operand(&self, _level: i32, _key: &[u8], operand: &[u8]) -> bool {
        match self.config.0.get() {
            Some(config) if config.state == StateType::List => {
                matches!(self.decide(config, operand), FilterDecision::Remove)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_do_not_overflow() {
        assert!(expired(10, 5, 15));
        assert!(!expired(10, 5, 14));
        assert!(!expired(10, i64::MAX, i64::MAX - 1));
        assert!(expired(-10, 5, -5));
        assert!(expired(0, 5, 5));
        assert!(expired(i64::MIN, 5, 0));
    }

    /// The list as a model: elements one by one.
    #[test]
    fn expired_elements_are_cut_off_at_the_front() {
        let element = |time: i64| [&time.to_be_bytes()[..], &[7; 4]].concat();
        for expired_count in 0..5usize {
            let times: Vec<i64> =
                (0..4).map(|at| if at < expired_count { 1 } else { 100 }).collect();
            let list: Vec<u8> = times.iter().flat_map(|time| element(*time)).collect();
            let live = first_live(&list, 0, 12, 10, 50);
            assert_eq!(live, expired_count.min(4) * 12);
        }
        assert_eq!(first_live(&[1, 2, 3], 0, 12, 10, 50), 0, "too short to be judged");
    }
}
