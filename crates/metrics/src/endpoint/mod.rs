//! The metrics endpoint: a small HTTP server for two paths.
//!
//! In: where to listen ([`ListenAddress`]), the bound socket ([`Endpoint`]), and the running server ([`Server`]).
//! Guaranteed: at most 16 connections, 5 seconds and 8 KiB for the head of a request, one request per connection;
//! everything ends within 2 seconds of [`Server::stop`]. `GET /metrics` and `GET /healthz` are answered; anything else
//! is 404. Nothing of a request is kept or logged.
//! Not here: what is shown, which is asked for by a function; authentication and encryption, of which there is none.
//! Whoever listens on an address that is not [loopback](Endpoint::is_loopback) should be told that.

mod address;
mod connection;
mod request;
mod server;

pub use address::{AddressError, ListenAddress};
pub use request::{Malformed, Request, parse};
pub use server::{BindError, Endpoint, Job, Server};
