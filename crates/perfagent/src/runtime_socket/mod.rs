//! The socket of a runtime in a folder of its process, and as whom that process acts: what JVMs and .NET have in common.
//!
//! The folder of a target is hostile: only a socket of the target's user (or root) that the target itself listens on is connected to, no link is
//! followed to it, no folder outside of the target's root is entered, and a listener that accepts nothing is not waited for.

mod made_file;
mod mappings;
mod socket;
mod status;

pub(crate) use made_file::{PEEK, remove_made};
pub(crate) use mappings::code_names;
pub(crate) use socket::{FOLDER, SocketError, connect, folder};
pub(crate) use status::{Owner, Status, innermost_pid, may_act_for, proc_file, status};
