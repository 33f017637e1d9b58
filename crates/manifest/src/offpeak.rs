//! The hours of low load (`daily_offpeak_time_utc`): a file that would get too old before they
//! return is already compacted in them.
//!
//! RocksDB does the same, also with a file that was written in these hours; with a period shorter
//! than a day that could repeat endlessly, so here the file must have been written before they
//! began.
//!
//! Pure.

const DAY: u64 = 86_400;

/// A range of minutes of every day, both ends included; over midnight if it ends before it starts.
/// The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offpeak {
    /// Seconds since midnight; none if they are equal.
    start: u64,
    end: u64,
}

impl Offpeak {
    /// From the minute of `start` to that of `end`, in seconds since midnight, below a day; none
    /// if they are equal.
    pub fn new(start: u64, end: u64) -> Self {
        Offpeak { start, end }
    }

    /// When a file that was written at `time` and is too old at `deadline` should be compacted, as
    /// seen at `now`; all in unix seconds. Not after `now`: at once.
    pub fn due(&self, time: u64, deadline: u64, now: u64) -> u64 {
        if self.start == self.end || deadline <= now {
            return deadline;
        }
        // The last hours that begin before the deadline, at most a day before.
        let earliest = deadline.saturating_sub(DAY);
        let begins = earliest.saturating_add((self.start + DAY - earliest % DAY) % DAY);
        if now < begins {
            return begins.min(deadline);
        }
        let written_before = time < begins;
        if written_before && self.contains(now) { now } else { deadline }
    }

    fn contains(&self, now: u64) -> bool {
        let minute = now % DAY / 60 * 60;
        if self.start <= self.end {
            (self.start..=self.end).contains(&minute)
        } else {
            minute >= self.start || minute <= self.end
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn at(day: u64, hour: u64, minute: u64) -> u64 {
        day * DAY + hour * HOUR + minute * 60
    }

    /// The first second in which the file is due, found second by second from `from`.
    fn first_due(hours: Offpeak, time: u64, deadline: u64, from: u64) -> u64 {
        let mut now = from;
        loop {
            let due = hours.due(time, deadline, now);
            if due <= now {
                return now;
            }
            // The prediction holds: nothing happens until then.
            now = due;
        }
    }

    #[test]
    fn none_changes_nothing() {
        for hours in [Offpeak::default(), Offpeak::new(HOUR, HOUR)] {
            assert_eq!(hours.due(3, 500, 7), 500);
            assert_eq!(hours.due(3, 500, 501), 500);
        }
    }

    #[test]
    fn files_that_would_not_last_until_the_next_hours_are_due() {
        let hours = Offpeak::new(4 * HOUR, 6 * HOUR);
        let time = at(10, 0, 0);
        for (deadline, due) in [
            (at(40, 3, 59), at(39, 4, 0)),
            (at(40, 4, 0), at(39, 4, 0)),
            (at(40, 4, 0) + 1, at(40, 4, 0)),
            (at(40, 5, 0), at(40, 4, 0)),
            (at(40, 23, 0), at(40, 4, 0)),
        ] {
            assert_eq!(first_due(hours, time, deadline, time), due, "{deadline}");
            // Noticed later in the same hours, or, these being over, at the deadline.
            assert_eq!(hours.due(time, deadline, due + HOUR), (due + HOUR).min(deadline));
            assert_eq!(hours.due(time, deadline, due + 3 * HOUR), deadline);
        }
    }

    #[test]
    fn the_last_minute_counts_and_midnight_is_no_end() {
        let hours = Offpeak::new(23 * HOUR + 1800, HOUR);
        let (time, deadline) = (at(3, 0, 0), at(40, 12, 0));
        assert_eq!(first_due(hours, time, deadline, time), at(39, 23, 30));
        for now in [at(39, 23, 30), at(40, 0, 0), at(40, 1, 0) + 59] {
            assert_eq!(hours.due(time, deadline, now), now);
        }
        assert_eq!(hours.due(time, deadline, at(40, 1, 1)), deadline);
    }

    /// With a period shorter than a day a new file is not due at once.
    #[test]
    fn what_was_written_in_these_hours_waits() {
        let hours = Offpeak::new(4 * HOUR, 8 * HOUR);
        for hour in [4, 5, 8] {
            let time = at(9, hour, 0);
            assert_eq!(first_due(hours, time, time + HOUR, time), time + HOUR);
        }
        let time = at(9, 3, 30);
        assert_eq!(first_due(hours, time, time + HOUR, time), at(9, 4, 0));
    }

    #[test]
    fn far_times_do_not_overflow() {
        let hours = Offpeak::new(4 * HOUR, 8 * HOUR);
        assert!(hours.due(5, u64::MAX, 6) > u64::MAX - 2 * DAY);
        assert_eq!(hours.due(0, 10, 6), 10);
    }
}
