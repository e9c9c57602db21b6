//! Tables and walks against other unwinders, damaged files and real programs.

mod aarch64;
mod full_hostile;
mod full_programs;
mod full_rows;
mod hostile;
mod large_files;
mod oracle_codewalk;
mod oracle_framehop;
mod oracle_functions;
mod oracle_gimli;
mod oracle_go;
mod programs;
mod seeds;
