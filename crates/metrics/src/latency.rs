//! The statistics of a distribution of durations.

/// Statistics of a distribution of durations. Count, minimum, maximum and mean are exact, percentiles within 1 %.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LatencyStats {
    /// Number of values.
    pub count: u64,
    /// Smallest, in ns.
    pub min: u64,
    /// Largest, in ns.
    pub max: u64,
    /// Mean in ns.
    pub mean: f64,
    /// Median in ns.
    pub p50: u64,
    /// 95th percentile in ns.
    pub p95: u64,
    /// 99th percentile in ns.
    pub p99: u64,
    /// 99.9th percentile in ns.
    pub p999: u64,
}
