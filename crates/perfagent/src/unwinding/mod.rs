//! Unwind tables of what is recorded, and walks in user space of stacks that the kernel could not walk.
//!
//! Compiling a table happens on worker threads (crate `tables`). Which process maps what is not known here: `processes` asks for tables
//! and is told which processes have new ones.

mod build_ids;
mod deferred;
mod eviction;
mod evictions;
mod file_bytes;
mod file_table;
mod file_tables;
mod kept_tables;
mod leaving;
mod making_room;
mod mapping_list;
mod news;
mod pool_room;
mod room;
mod scarcity;
mod table_store;
mod table_warnings;
mod unwinders;
mod used_files;
mod user_walk;

pub(crate) use deferred::{DeferredStack, DeferredStacks};
pub(crate) use table_store::TableStore;
pub(crate) use unwinders::Unwinders;
pub(crate) use user_walk::{Walked, walk};
