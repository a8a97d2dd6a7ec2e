//! What is sent, and how the protocol says it.

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber},
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as Message, NumberDataPoint,
        ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point,
    },
    resource::v1,
};

/// Names and values of attributes.
type Attributes = Vec<(&'static str, String)>;

/// Who measures: `service.name` and its like.
#[derive(Debug, Clone, Default)]
pub struct Resource(pub Attributes);

/// Numbers of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Without unit and `_total`, which collectors add for Prometheus.
    pub name: &'static str,
    /// What it says.
    pub description: &'static str,
    /// In UCUM: `By`, `s`; empty for what is only counted.
    pub unit: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// By attributes.
    pub points: Vec<Point>,
}

/// What kind of number it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows from the start of the process on.
    Sum,
    /// Is what it is now.
    Gauge,
    /// Counts by buckets, from the start of the process on.
    Histogram,
}

/// One number.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its labels.
    pub attributes: Attributes,
    /// The number.
    pub value: Value,
}

/// A number, or numbers by bucket.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A count.
    Int(u64),
    /// Anything else.
    Double(f64),
    /// Each bucket's upper bound and its count, not added up; the last bound is infinite.
    Buckets {
        /// Of all values.
        sum: f64,
        /// In the order of their bounds.
        buckets: Vec<(f64, u64)>,
    },
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What kind of event it is.
    pub name: &'static str,
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// How much it matters.
    pub severity: Level,
    /// The severity of the rule: `high`.
    pub severity_text: String,
    /// The fact in one sentence.
    pub body: String,
    /// What else there is to say.
    pub attributes: Attributes,
}

/// The severities of OTLP that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `ERROR`.
    Error,
    /// `WARN`.
    Warn,
    /// `INFO`.
    Info,
}

/// The time over which numbers have grown, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) since_ns: u64,
    pub(crate) now_ns: u64,
}

pub(crate) fn metrics(resource: &Resource, span: Span, metrics: Vec<Metric>) -> ResourceMetrics {
    let metrics = metrics.into_iter().map(|metric| message(metric, span)).collect();
    ResourceMetrics {
        resource: Some(of_resource(resource)),
        scope_metrics: vec![ScopeMetrics {
            scope: Some(scope()),
            metrics,
            ..ScopeMetrics::default()
        }],
        ..ResourceMetrics::default()
    }
}

pub(crate) fn logs(resource: &Resource, observed_ns: u64, events: &[Event]) -> ResourceLogs {
    let log_records = events.iter().map(|event| record(event, observed_ns)).collect();
    ResourceLogs {
        resource: Some(of_resource(resource)),
        scope_logs: vec![ScopeLogs {
            scope: Some(scope()),
            log_records,
            ..ScopeLogs::default()
        }],
        ..ResourceLogs::default()
    }
}

fn message(metric: Metric, span: Span) -> Message {
    let cumulative = AggregationTemporality::Cumulative.into();
    let points = metric.points.into_iter();
    let data = match metric.kind {
        Kind::Sum => Data::Sum(Sum {
            data_points: points.map(|point| number(point, span)).collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        Kind::Gauge => Data::Gauge(Gauge {
            data_points: points.map(|point| number(point, span)).collect(),
        }),
        Kind::Histogram => Data::Histogram(Histogram {
            data_points: points.map(|point| histogram(point, span)).collect(),
            aggregation_temporality: cumulative,
        }),
    };
    Message {
        name: metric.name.to_owned(),
        description: metric.description.to_owned(),
        unit: metric.unit.to_owned(),
        data: Some(data),
        ..Message::default()
    }
}

fn number(point: Point, span: Span) -> NumberDataPoint {
    let value = match point.value {
        Value::Int(value) => number_data_point::Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX)),
        Value::Double(value) => number_data_point::Value::AsDouble(value),
        // A histogram without its buckets is its sum.
        Value::Buckets { sum, .. } => number_data_point::Value::AsDouble(sum),
    };
    NumberDataPoint {
        attributes: key_values(&point.attributes),
        start_time_unix_nano: span.since_ns,
        time_unix_nano: span.now_ns,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

fn histogram(point: Point, span: Span) -> HistogramDataPoint {
    let (sum, buckets) = match point.value {
        Value::Buckets { sum, buckets } => (sum, buckets),
        Value::Int(_) | Value::Double(_) => (0.0, Vec::new()),
    };
    HistogramDataPoint {
        attributes: key_values(&point.attributes),
        start_time_unix_nano: span.since_ns,
        time_unix_nano: span.now_ns,
        count: buckets.iter().map(|(_, count)| count).sum(),
        sum: Some(sum),
        // The last bucket has none.
        explicit_bounds: buckets
            .iter()
            .map(|(bound, _)| *bound)
            .filter(|bound| bound.is_finite())
            .collect(),
        bucket_counts: buckets.into_iter().map(|(_, count)| count).collect(),
        ..HistogramDataPoint::default()
    }
}

fn record(event: &Event, observed_ns: u64) -> LogRecord {
    let severity = match event.severity {
        Level::Error => SeverityNumber::Error,
        Level::Warn => SeverityNumber::Warn,
        Level::Info => SeverityNumber::Info,
    };
    LogRecord {
        time_unix_nano: event.time_ns,
        observed_time_unix_nano: observed_ns,
        severity_number: severity.into(),
        severity_text: event.severity_text.clone(),
        body: Some(text(&event.body)),
        attributes: key_values(&event.attributes),
        event_name: event.name.to_owned(),
        ..LogRecord::default()
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "cqlens".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

fn of_resource(resource: &Resource) -> v1::Resource {
    v1::Resource {
        attributes: key_values(&resource.0),
        ..v1::Resource::default()
    }
}

fn key_values(attributes: &[(&'static str, String)]) -> Vec<KeyValue> {
    let attributes = attributes.iter();
    attributes
        .map(|(key, value)| KeyValue {
            key: (*key).to_owned(),
            value: Some(text(value)),
            ..KeyValue::default()
        })
        .collect()
}

fn text(text: &str) -> AnyValue {
    AnyValue {
        value: Some(any_value::Value::StringValue(text.to_owned())),
    }
}
