//! Objects of Java that the engine calls: made, given as options, ended.

use std::sync::Arc;

use pumice::{Comparator, Error, Logger};
use pumice_binding::store::Fields;

use crate::callbacks::filter::{JavaFactory, RemoveEmptyValue};
use crate::callbacks::flink::{Config, Elements, FlinkConfig, FlinkFilter, StateType};
use crate::callbacks::{JavaListener, JavaLogger, JavaOrder, StdErrLogger};
use crate::ffi::call::{Failure, Result};
use crate::ffi::env::{Env, Object};
use crate::ffi::from::{Handle, Taken};
use crate::ffi::into::New;
use crate::ffi::vm::Global;
use crate::objects::{
    Filter, FilterFactory, Listener, Log, LogFilter, Options, Order, TableGate, TraceFile, Values,
};

/// The comparator with Java's number of its kind: 0 is of Java, 1 native.
///
/// # Errors
/// A native one, which no class of the jars is.
pub fn order_of(env: Env<'_>, order: Handle, kind: i8) -> Result<Comparator> {
    match kind {
        0 => Ok(Comparator::Custom(Arc::clone(&order.get::<Order>(env)?.0) as _)),
        _ => Err(Error::not_supported("a comparator that is native code").into()),
    }
}

/// Java: AbstractComparator.createNewComparator this 0
pub fn new_order(env: Env<'_>, order: Object<'_>, options: &Values) -> Result<New<Order>> {
    let direct = options.store().flag("use_direct_buffer");
    Ok(New(Order(Arc::new(JavaOrder::new(env, order, direct)?))))
}

/// Java: AbstractComparator.usingDirectBuffers
pub fn uses_direct_buffers(_env: Env<'_>, order: &Order) -> Result<bool> {
    Ok(order.0.is_direct())
}

/// Java: RocksCallbackObject.disposeInternal
pub fn end(env: Env<'_>, object: Handle) -> Result<()> {
    // Comparators, filters of logs and tables, writers of traces, and handlers of batches end here.
    if object.get::<Order>(env).is_ok() {
        return object.end::<Order>();
    }
    if object.get::<LogFilter>(env).is_ok() {
        return object.end::<LogFilter>();
    }
    if object.get::<TraceFile>(env).is_ok() {
        return object.end::<TraceFile>();
    }
    if object.get::<TableGate>(env).is_ok() {
        return object.end::<TableGate>();
    }
    object.end::<crate::objects::Handler>()
}

/// Java: AbstractCompactionFilterFactory.createNewCompactionFilterFactory0 this
pub fn new_factory(env: Env<'_>, factory: Object<'_>) -> Result<New<FilterFactory>> {
    Ok(New(FilterFactory(Arc::new(JavaFactory::new(env, factory)?))))
}

/// Java: RemoveEmptyValueCompactionFilter.createNewRemoveEmptyValueCompactionFilter0
pub fn new_remove_empty(_env: Env<'_>) -> Result<New<Filter>> {
    Ok(New(Filter(Arc::new(RemoveEmptyValue))))
}

/// Java: FlinkCompactionFilter.createNewFlinkCompactionFilterConfigHolder
pub fn new_flink_config(_env: Env<'_>) -> Result<New<FlinkConfig>> {
    Ok(New(FlinkConfig::default()))
}

/// Java: FlinkCompactionFilter.disposeFlinkCompactionFilterConfigHolder
pub fn end_flink_config(_env: Env<'_>, _config: Taken<FlinkConfig>) -> Result<()> {
    Ok(())
}

/// Java: FlinkCompactionFilter.configureFlinkCompactionFilter
#[allow(clippy::too_many_arguments)] // Java's.
pub fn configure_flink(
    env: Env<'_>,
    holder: &FlinkConfig,
    state: i32,
    offset: i32,
    ttl: i64,
    query_after: i64,
    element_length: i32,
    factory: Object<'_>,
) -> Result<bool> {
    let state = match state {
        0 => StateType::Disabled,
        1 => StateType::Value,
        2 => StateType::List,
        other => return Err(Failure::illegal(format!("there is no state type {other}"))),
    };
    let elements = match usize::try_from(element_length) {
        Ok(length) if length > 0 => Elements::Fixed(length),
        _ if factory.is_null() => Elements::First,
        _ => Elements::Java(Global::new(env, factory)),
    };
    let offset = usize::try_from(offset).unwrap_or(0);
    Ok(holder.0.set(Config { state, offset, ttl, query_after, elements }).is_ok())
}

/// Java: FlinkCompactionFilter.createNewFlinkCompactionFilter0
pub fn new_flink_filter(
    env: Env<'_>,
    config: &FlinkConfig,
    clock: Object<'_>,
    logger: Option<&Log>,
) -> Result<New<Filter>> {
    let clock = Global::new(env, env.present(clock)?);
    let logger = logger.map(engine_logger);
    Ok(New(Filter(Arc::new(FlinkFilter::new(config.clone(), clock, logger)))))
}

/// The logger as the engine takes it.
pub fn engine_logger(log: &Log) -> Arc<dyn Logger> {
    match log {
        Log::Java(logger) => Arc::clone(logger) as _,
        Log::StdErr(logger) => Arc::clone(logger) as _,
    }
}

/// Java: Logger.newLogger this 0
pub fn new_logger(env: Env<'_>, logger: Object<'_>, level: i64) -> Result<New<Log>> {
    Ok(New(Log::Java(Arc::new(JavaLogger::new(env, logger, level as i8)?))))
}

/// Java: Logger.createNewLoggerOptions|createNewLoggerDbOptions this 0
pub fn new_logger_of(env: Env<'_>, logger: Object<'_>, options: &Options) -> Result<New<Log>> {
    let level = options.store().int("info_log_level");
    new_logger(env, logger, level)
}

/// Java: util/StdErrLogger.newStdErrLogger
pub fn new_stderr_logger(env: Env<'_>, level: i8, prefix: Object<'_>) -> Result<New<Log>> {
    let prefix = if prefix.is_null() { String::new() } else { env.text(prefix)? };
    Ok(New(Log::StdErr(Arc::new(StdErrLogger::new(level, prefix)))))
}

/// Java: Logger|util/StdErrLogger.infoLogLevel
pub fn logger_level(_env: Env<'_>, log: &Log) -> Result<i8> {
    Ok(match log {
        Log::Java(logger) => logger.number(),
        Log::StdErr(logger) => logger.number(),
    })
}

/// Java: Logger|util/StdErrLogger.setInfoLogLevel
pub fn set_logger_level(_env: Env<'_>, log: &Log, level: i8) -> Result<()> {
    match log {
        Log::Java(logger) => logger.set_number(level),
        Log::StdErr(logger) => logger.set_number(level),
    }
    Ok(())
}

/// Java: Options|DBOptions.setLogger (JJ) 0 1
/// Java: Options|DBOptions.setLogger (JJB) 0 1
pub fn set_logger(_env: Env<'_>, options: &mut Options, log: Option<&Log>) -> Result<()> {
    options.values.engine.db.info_log = log.map(engine_logger);
    Ok(())
}

/// Java: AbstractEventListener.createNewEventListener this 0
pub fn new_listener(env: Env<'_>, listener: Object<'_>, events: u64) -> Result<New<Listener>> {
    Ok(New(Listener(Arc::new(JavaListener::new(env, listener, events)?))))
}

/// Java: Options|DBOptions.setEventListeners
pub fn set_listeners(
    _env: Env<'_>,
    options: &mut Options,
    listeners: crate::ffi::from::List<'_, Listener>,
) -> Result<()> {
    options.listeners = listeners.0.iter().map(|listener| Arc::clone(&listener.0)).collect();
    Ok(())
}

/// Java: Options|DBOptions.eventListeners
pub fn get_listeners<'a>(env: Env<'a>, options: &Options) -> Result<Object<'a>> {
    let class = "org/rocksdb/AbstractEventListener";
    let array = env.new_objects(class, options.listeners.len())?;
    for (at, listener) in options.listeners.iter().enumerate() {
        env.set_element(array, at, listener.object())?;
    }
    Ok(array)
}
