//! When an event is tried again.

use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};

/// The longest that a consumer may ask for: what it says by mistake must not hold an event for ever.
const ASKED_MAX: Duration = Duration::from_secs(24 * 3600);

/// The pause after the `attempt`th attempt, or `None` where that was the last. `chance` is between nought and one: it keeps
/// what failed together from coming back together.
pub(super) fn pause(schedule: &[Duration], attempt: u32, asked: Option<Duration>, chance: f64) -> Option<Duration> {
    let planned = schedule.get(usize::try_from(attempt).unwrap_or(usize::MAX))?;
    let planned = planned.mul_f64(0.9 + 0.2 * chance);
    Some(asked.unwrap_or_default().max(planned))
}

/// What the consumer asks for, where it says that it is busy.
pub(super) fn asked_for(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(asked.min(ASKED_MAX))
}

/// Between nought and one.
pub(super) fn chance() -> f64 {
    let mut bytes = [0; 4];
    // Without chance they come back together, which is bearable.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const SCHEDULE: [Duration; 3] = [Duration::ZERO, Duration::from_secs(60), Duration::from_secs(300)];

    #[test]
    fn pauses_follow_the_schedule_give_or_take_a_tenth() {
        assert_eq!(pause(&SCHEDULE, 1, None, 0.5), Some(Duration::from_secs(60)));
        assert_eq!(pause(&SCHEDULE, 1, None, 0.0), Some(Duration::from_secs(54)));
        assert_eq!(pause(&SCHEDULE, 2, None, 1.0), Some(Duration::from_secs(330)));
        assert_eq!(pause(&SCHEDULE, 3, None, 0.5), None);
        assert_eq!(pause(&SCHEDULE, u32::MAX, None, 0.5), None);
    }

    #[test]
    fn who_asks_for_more_gets_more() {
        assert_eq!(pause(&SCHEDULE, 1, Some(Duration::from_secs(600)), 0.5), Some(Duration::from_secs(600)));
        assert_eq!(pause(&SCHEDULE, 1, Some(Duration::from_secs(1)), 0.5), Some(Duration::from_secs(60)));
        assert_eq!(pause(&SCHEDULE, 3, Some(Duration::from_secs(600)), 0.5), None, "the last is the last");
    }

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let now = UNIX_EPOCH + Duration::from_secs(1_794_787_700);
        let asked = |status: u16, text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            asked_for(StatusCode::from_u16(status).unwrap(), &headers, now)
        };
        assert_eq!(asked(503, "120"), Some(Duration::from_secs(120)));
        assert_eq!(asked(429, &httpdate::fmt_http_date(now + Duration::from_secs(90))), Some(Duration::from_secs(90)));
        assert_eq!(asked(429, &httpdate::fmt_http_date(now - Duration::from_secs(90))), Some(Duration::ZERO));
        assert_eq!(asked(503, "99999999"), Some(ASKED_MAX));
        assert_eq!((asked(503, "soon"), asked(500, "120")), (None, None));
        assert!((0.0..=1.0).contains(&chance()));
    }
}
