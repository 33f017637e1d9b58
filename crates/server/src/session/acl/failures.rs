//! Rate limit of failed authentications per address.
//!
//! Each address has a number of failures in a burst, which refills within a minute. An attempt is
//! charged before the password is checked, and refunded when it was right: an attacker cannot guess
//! faster than the rate, however many connections it uses. Addresses of IPv6 count by their /64.
//! Clients of the Unix socket are not limited: the file's mode controls access.
//!
//! Thread safety: everything may be shared. Time is passed in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::net::SocketAddr;
use pumice_port::sync::Mutex;

const MINUTE_MICROS: u64 = 60_000_000;
/// Addresses that are remembered at once.
const ADDRESSES: usize = 4096;

/// See the module's head.
#[derive(Debug, Default)]
pub struct Failures {
    /// 0 for no limit.
    per_minute: AtomicU64,
    /// When an address will have paid off its failures, in microseconds.
    debts: Mutex<BTreeMap<u128, u64>>,
}

/// The part of an address that counts; None for a socket of the file system.
fn group(address: &str) -> Option<u128> {
    const SUBNET: u128 = !(u64::MAX as u128);
    match address.parse().ok()? {
        SocketAddr::V4(v4) => Some(u128::from(v4.ip().to_bits())),
        SocketAddr::V6(v6) => Some(match v6.ip().to_ipv4_mapped() {
            Some(v4) => u128::from(v4.to_bits()),
            None => v6.ip().to_bits() & SUBNET,
        }),
    }
}

impl Failures {
    /// From now on an address may fail this many times per minute; 0 for no limit.
    pub fn set_per_minute(&self, failures: u64) {
        self.per_minute.store(failures, Ordering::Relaxed);
    }

    fn price(&self) -> Option<u64> {
        let per_minute = self.per_minute.load(Ordering::Relaxed);
        (per_minute > 0).then(|| MINUTE_MICROS / per_minute.min(MINUTE_MICROS))
    }

    /// Charges `address` for an attempt.
    ///
    /// # Errors
    /// The address has failed too often: seconds until it may try again.
    pub fn charge(&self, address: &str, now_millis: u64) -> Result<(), u64> {
        let (Some(price), Some(group)) = (self.price(), group(address)) else { return Ok(()) };
        let now = now_millis * 1000;
        let mut debts = self.debts.lock();
        if debts.len() >= ADDRESSES && !debts.contains_key(&group) {
            debts.retain(|_, paid| *paid > now);
            // The address that owes least is forgotten first.
            let least = debts.iter().min_by_key(|(_, paid)| **paid).map(|(group, _)| *group);
            if let Some(least) = least.filter(|_| debts.len() >= ADDRESSES) {
                debts.remove(&least);
            }
        }
        let paid = debts.entry(group).or_insert(now);
        // A clock that was set back locks no client out for longer than a minute.
        *paid = (*paid).clamp(now, now + MINUTE_MICROS);
        let over = (*paid + price).saturating_sub(now + MINUTE_MICROS);
        if over > 0 {
            return Err(over.div_ceil(1_000_000));
        }
        *paid += price;
        Ok(())
    }

    /// The attempt was right.
    pub fn give_back(&self, address: &str) {
        let (Some(price), Some(group)) = (self.price(), group(address)) else { return };
        let mut debts = self.debts.lock();
        if let Some(paid) = debts.get_mut(&group) {
            *paid = paid.saturating_sub(price);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn limited(per_minute: u64) -> Failures {
        let failures = Failures::default();
        failures.set_per_minute(per_minute);
        failures
    }

    #[pumice_test_macros::test]
    fn an_address_fails_so_often_in_a_minute_whatever_its_port() {
        let failures = limited(6);
        for port in 0..6 {
            failures.charge(&format!("10.0.0.1:{port}"), NOW).unwrap();
        }
        assert_eq!(failures.charge("10.0.0.1:99", NOW), Err(10));
        assert_eq!(failures.charge("[::ffff:10.0.0.1]:1", NOW + 9_500), Err(1));
        failures.charge("10.0.0.2:1", NOW).unwrap();
        failures.charge("10.0.0.1:1", NOW + 10_000).unwrap();
        assert_eq!(failures.charge("10.0.0.1:1", NOW + 10_000), Err(10));
        // Within a minute everything is paid off.
        (0..6).for_each(|_| failures.charge("10.0.0.1:1", NOW + 80_000).unwrap());
    }

    #[pumice_test_macros::test]
    fn who_is_right_does_not_pay() {
        let failures = limited(2);
        for _ in 0..100 {
            failures.charge("10.0.0.1:1", NOW).unwrap();
            failures.give_back("10.0.0.1:1");
        }
        // Networks of IPv6 count as one; sockets of the file system do not count.
        failures.charge("[2001:db8::1]:1", NOW).unwrap();
        failures.charge("[2001:db8::2]:1", NOW).unwrap();
        assert!(failures.charge("[2001:db8::3]:1", NOW).is_err());
        failures.charge("[2001:db8:0:1::3]:1", NOW).unwrap();
        (0..100).for_each(|_| failures.charge("/run/pumice.sock:0", NOW).unwrap());
        (0..100).for_each(|_| limited(0).charge("10.0.0.1:1", NOW).unwrap());
    }

    #[pumice_test_macros::test]
    fn what_is_remembered_is_bounded_and_clocks_may_go_back() {
        let failures = limited(2);
        failures.charge("10.0.0.1:1", NOW).unwrap();
        failures.charge("10.0.0.1:1", NOW).unwrap();
        for host in 0..3 * ADDRESSES {
            let address = format!("10.1.{}.{}:1", host / 256, host % 256);
            failures.charge(&address, NOW).unwrap();
        }
        assert_eq!(failures.debts.lock().len(), ADDRESSES);
        // The address that owes most is not forgotten in favour of others.
        assert!(failures.charge("10.0.0.1:1", NOW).is_err());
        assert_eq!(failures.charge("10.0.0.1:1", NOW - 1_000_000_000), Err(30));
    }
}
