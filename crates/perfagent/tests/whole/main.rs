//! The library from outside: whole captures.

mod cut;
mod library;
mod metrics;
mod started;
