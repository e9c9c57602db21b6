//! Scheduler and counter metrics: what was measured, as values and as bytes.
//!
//! In: distributions of durations ([`Histogram`]), the figures of a capture ([`MetricsSnapshot`]), their
//! reports ([`text_report`], [`json_report`]) and who takes them ([`MetricsExporter`]); the
//! texts that monitoring systems read ([`expose`], [`Exposer`]) and the endpoint where they fetch them ([`endpoint`]).
//! Guaranteed: pure, no Linux. Counts, sums, minima and maxima are exact, percentiles within 1 %; figures of several
//! processes come from merged histograms; what is missing is said ([`Incomplete`]), and what was not counted is
//! never shown as zero.
//! Not here: measuring.
#![forbid(unsafe_code)]

mod bucket;
mod counters;
pub mod endpoint;
mod exporter;
mod exposition;
mod histogram;
mod latency;
mod report;
mod snapshot;

pub use bucket::{HISTOGRAM_BUCKETS, bounds_of, bucket_of};
pub use counters::{Counter, CounterState, CounterUnit, HardwareCounters};
pub use exporter::{BoxError, ConsoleExporter, JsonExporter, MetricsExporter};
pub use exposition::{DebuginfodHealth, Exposer, Exposition, Health, ModeHealth, SymbolizeHealth, expose};
pub use histogram::Histogram;
pub use latency::LatencyStats;
pub use report::{json_report, text_report};
pub use snapshot::{ContextSwitches, Incomplete, MetricsSnapshot, ProcessMetrics, Scheduling, Scope, Span};
