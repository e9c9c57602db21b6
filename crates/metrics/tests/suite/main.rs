//! The report in its formats and the endpoint, from outside.

mod endpoint;
mod openmetrics;
