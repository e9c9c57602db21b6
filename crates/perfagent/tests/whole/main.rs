//! The library from outside: whole captures.

mod library;
mod metrics;
mod started;
