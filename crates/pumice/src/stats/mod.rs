//! Statistics (in progress).
/// Statistics.
pub struct Statistics;
/// Listener.
pub trait EventListener: Send + Sync {}
/// Logger.
pub trait Logger: Send + Sync {}
