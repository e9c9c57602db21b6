//! The bound socket and the threads behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::ListenAddress;
use super::connection::{self, TimeLimits};
use crate::Exposition;

const MAX_CONNECTIONS: usize = 16;
/// Less than the documented two seconds.
const STOP_TIME: Duration = Duration::from_millis(1500);
/// Pause after a failed accept, so that a lack of descriptors does not cause a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The body of the listening thread.
pub type Job = Box<dyn FnOnce() + Send>;

type Source = dyn Fn(Exposition) -> String + Send + Sync;

/// The address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("listen for metrics on {address}: {source}")]
pub struct BindError {
    /// The address.
    pub address: ListenAddress,
    /// The cause.
    pub source: io::Error,
}

impl BindError {
    /// The remedy.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self.source.kind() {
            io::ErrorKind::AddrInUse => "another program listens on this port: choose another port",
            io::ErrorKind::PermissionDenied => {
                "ports below 1024 need cap_net_bind_service: choose another port"
            }
            io::ErrorKind::AddrNotAvailable => {
                "no interface of this machine has this address: leave the host out to listen on 127.0.0.1"
            }
            _ => "give an address of this machine and a port, for example 127.0.0.1:9101",
        }
    }
}

/// A bound socket. Connections wait until it is [started](Self::start).
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    limits: TimeLimits,
}

impl Endpoint {
    /// Binds the address. A name is resolved, and its first address that can be bound is used.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(address: &ListenAddress) -> Result<Self, BindError> {
        let bound = TcpListener::bind((address.host(), address.port())).and_then(|listener| {
            Ok(Self { address: listener.local_addr()?, listener, limits: TimeLimits::default() })
        });
        bound.map_err(|source| BindError { address: address.clone(), source })
    }

    /// Gives clients other times than the usual ones.
    #[must_use]
    pub fn with_limits(self, limits: TimeLimits) -> Self {
        Self { limits, ..self }
    }

    /// The bound address, with the port that the system chose for port 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Answers requests from now on. `source` gives the text of each answer; several threads may call it at once.
    /// `spawn` starts the listening thread, so the caller decides its signal mask; the threads of connections inherit
    /// that mask.
    ///
    /// # Errors
    /// The error of `spawn`.
    pub fn start(
        self,
        source: impl Fn(Exposition) -> String + Send + Sync + 'static,
        spawn: impl FnOnce(Job) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<Server> {
        let address = self.address;
        let shared = Arc::new(Shared::default());
        let listening = Arc::clone(&shared);
        let job = Box::new(move || self.listen(&listening, &(Arc::new(source) as Arc<Source>)));
        Ok(Server { address, shared, thread: Some(spawn(job)?) })
    }

    fn listen(&self, shared: &Arc<Shared>, source: &Arc<Source>) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for number in 0.. {
            let accepted = self.listener.accept();
            if shared.stopped() {
                break;
            }
            threads.retain(|thread| !thread.is_finished());
            let Ok((stream, _)) = accepted else {
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            };
            if !shared.admit(number, &stream) {
                connection::refuse(&stream);
                continue;
            }
            let admitted = Admitted { number, shared: Arc::clone(shared) };
            let (limits, source) = (self.limits, Arc::clone(source));
            let body = move || {
                let _admitted = admitted;
                connection::serve(&stream, limits, &*source);
            };
            // If no thread can be started, dropping `body` closes the connection.
            threads.extend(Builder::new().name("perfagent-conn".to_owned()).spawn(body));
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// A running endpoint. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// The address of the listening socket.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections and the socket and joins the threads. Returns within two seconds, even if the source of
    /// the metrics hangs.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + STOP_TIME;
        self.shared.stop();
        // The thread blocks in accept, which returns for a connection from here. If this connection fails, others are
        // waiting there.
        let _ = TcpStream::connect_timeout(&reachable(self.address), STOP_TIME / 3);
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The address at which this machine reaches a socket that listens on all its addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    /// The open connections, to close them on a stop.
    connections: Mutex<BTreeMap<u64, TcpStream>>,
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, TcpStream>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for stream in self.connections().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Adds a connection. False beyond the limit and after a stop.
    fn admit(&self, number: u64, stream: &TcpStream) -> bool {
        let mut connections = self.connections();
        if connections.len() >= MAX_CONNECTIONS || self.stopped() {
            return false;
        }
        let Ok(second) = stream.try_clone() else { return false };
        connections.insert(number, second);
        true
    }
}

/// Removes a connection from the list when its thread ends, also by a panic.
struct Admitted {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.connections().remove(&self.number);
    }
}
