//! Metrics of the scheduler and of performance counters: values, reports and text formats.
//!
//! [`Histogram`] is a distribution of durations, [`MetricsSnapshot`] the metrics of a capture at one moment.
//! [`text_report`] and [`json_report`] write a snapshot for people and for programs; a [`MetricsExporter`] receives
//! snapshots. [`expose`] and [`Exposer`] write the text formats of monitoring systems, which [`endpoint`] serves over
//! HTTP.
//!
//! Counts, sums, minima and maxima are exact, percentiles within 1 %. The metrics of several processes are computed
//! from merged histograms. [`Incomplete`] says what is missing; an event that was not counted is never shown as zero.
//!
//! This crate measures nothing and needs no Linux.
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
