//! Events and counters of this machine's kernel.

mod counting;
mod flight_recorder;
mod group;
mod kernel;
mod monitor;
mod parameters;
mod permitted;
mod probes;
mod stack_reader;
