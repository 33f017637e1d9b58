//! Calendar times as C's `ctime` prints them. Pure functions but for the machine's time zone.

use pumice_port::time::{LocalTime, local_time};

/// `seconds` since 1970 in the machine's time zone: `Sun Nov 22 20:25:00 2026`.
pub fn date(seconds: i64) -> String {
    ctime(local_time(seconds as u64))
}

fn ctime(time: LocalTime) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    format!(
        "{} {} {:2} {:02}:{:02}:{:02} {}",
        DAYS[time.weekday as usize % 7],
        MONTHS[(time.month as usize + 11) % 12],
        time.day,
        time.hour,
        time.minute,
        time.second,
        time.year
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn the_date_is_ctimes() {
        let time =
            LocalTime { year: 2026, month: 11, day: 2, hour: 20, minute: 5, second: 9, weekday: 1 };
        assert_eq!(ctime(time), "Mon Nov  2 20:05:09 2026");
    }
}
