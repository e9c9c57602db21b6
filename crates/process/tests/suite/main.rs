//! Images of real processes.

mod images;
