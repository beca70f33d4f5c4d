use super::*;

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn tracer(sample: Share) -> (Arc<Tracer>, mpsc::Receiver<Vec<Span>>) {
    let (tracer, spans) = Tracer::new(sample, IntCounter::new("dropped", "dropped").unwrap());
    (Arc::new(tracer), spans)
}

fn given(value: &str) -> HeaderMap {
    [(context::TRACEPARENT, HeaderValue::try_from(value).unwrap())].into_iter().collect()
}

fn end(trace: &Trace) {
    trace.end(|| "delivery".to_owned(), Vec::new, None);
}

#[tokio::test]
async fn spans_hang_together_and_come_when_the_last_task_has_ended() {
    let (tracer, mut spans) = tracer(Share::ALL);
    let trace = tracer.begin(Kind::Server, &given(GIVEN), SystemTime::UNIX_EPOCH);
    trace.is_genuine();
    let (step, call) = (trace.step("claim"), trace.call("forward"));
    let onward = trace.onward(&call).unwrap();
    drop((step, call));
    let elsewhere = trace.clone();
    end(&trace);
    drop(trace);
    assert!(spans.try_recv().is_err());
    drop(elsewhere);
    let spans = spans.try_recv().unwrap();
    let [claim, forward, delivery] = &spans[..] else { panic!("{spans:?}") };
    assert!(spans.iter().all(|span| span.context.trace.to_string() == "0af7651916cd43dd8448eb211c80319c"));
    assert_eq!(delivery.parent, Some(SpanId(0xb7ad_6b71_6920_3331)));
    assert_eq!((claim.parent, forward.parent), (Some(delivery.context.span), Some(delivery.context.span)));
    assert!(claim.context.span != forward.context.span && claim.context.span != delivery.context.span);
    assert_eq!((delivery.kind, claim.kind, forward.kind), (Kind::Server, Kind::Internal, Kind::Client));
    assert_eq!(onward.parent, forward.context.header().unwrap());
    assert!(!onward.begins && claim.start <= claim.end);
}

#[tokio::test]
async fn what_is_not_genuine_leaves_nothing() {
    let (tracer, mut spans) = tracer(Share::ALL);
    let trace = tracer.begin(Kind::Server, &given(GIVEN), SystemTime::UNIX_EPOCH);
    drop(trace.step("verify"));
    end(&trace);
    drop(trace);
    assert!(spans.try_recv().is_err());
}

#[tokio::test]
async fn a_trace_that_nobody_records_is_passed_on_and_one_that_begins_here_says_so() {
    let (tracer, mut spans) = tracer(Share::ALL);
    let unsampled = tracer.begin(Kind::Server, &given(&GIVEN.replace("-01", "-00")), SystemTime::UNIX_EPOCH);
    unsampled.is_genuine();
    assert!(unsampled.onward(&unsampled.call("forward")).is_none());
    assert!(unsampled.onward_from_here().is_none());
    assert_eq!(unsampled.id(), None);
    drop(unsampled);
    assert!(spans.try_recv().is_err());

    let own = tracer.begin(Kind::Server, &HeaderMap::new(), SystemTime::UNIX_EPOCH);
    let onward = own.onward(&own.call("forward")).unwrap();
    assert!(onward.begins && onward.parent.to_str().unwrap().ends_with("-01"));

    let (nothing, _spans) = self::tracer(Share::NOTHING);
    let unwanted = nothing.begin(Kind::Server, &HeaderMap::new(), SystemTime::UNIX_EPOCH);
    let onward = unwanted.onward(&unwanted.call("forward")).unwrap();
    assert!(onward.begins && onward.parent.to_str().unwrap().ends_with("-00"));
}

#[tokio::test]
async fn what_is_too_much_is_dropped_and_counted() {
    let (tracer, _spans) = tracer(Share::ALL);
    for _ in 0..WAITING_MAX + 3 {
        let trace = tracer.begin(Kind::Server, &HeaderMap::new(), SystemTime::UNIX_EPOCH);
        trace.is_genuine();
        end(&trace);
    }
    assert_eq!(tracer.dropped.get(), 3);
}
