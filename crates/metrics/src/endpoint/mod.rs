//! The metrics endpoint: a small HTTP server for two paths.
//!
//! [`ListenAddress`] is the address, [`Endpoint`] the bound socket, [`Server`] the running server. A function of the
//! caller gives the text.
//!
//! At most 16 connections are open. A connection has one request, with [5 seconds](TimeLimits) and 8 KiB for its head. Everything
//! ends within 2 seconds of [`Server::stop`]. `GET /metrics` and `GET /healthz` are answered, anything else is 404. No
//! part of a request is stored or logged.
//!
//! There is no authentication and no encryption: warn users who listen on an address that is not
//! [loopback](Endpoint::is_loopback).

mod address;
mod connection;
mod request;
mod server;

pub use address::{AddressError, ListenAddress};
pub use connection::TimeLimits;
pub use request::{Malformed, Request, parse};
pub use server::{BindError, Endpoint, Job, Server};
