//! What the kernel reports of processes: exec, fork, new mappings, names, ends.

use std::collections::HashSet;
use std::sync::Arc;

use events::{Mmap, Record, TimedRecord};
use kernel::Kernel;
use process::{Image, NewMapping};
use profile::{Avma, FileOffset};

use super::super::clock;
use super::super::life::Life;
use super::super::tables::Tables;
use super::leaving::Leaving;
use super::past::{Program, Renamed};
use super::{Processes, has_ended};

impl Processes {
    /// Takes in what the kernel reported, in time order.
    pub(in super::super) fn apply(&mut self, kernel: &Kernel, records: &[TimedRecord], tables: &mut Tables) {
        // Asked for in the last round: what the records say of them comes first.
        let strangers = std::mem::take(&mut self.strangers);
        let mut ended = HashSet::new();
        for TimedRecord { time_ns, record, .. } in records {
            match record {
                Record::Mmap(mmap) => self.mapped(mmap),
                Record::Comm { pid, tid, exec, comm } => {
                    let name = String::from_utf8_lossy(comm);
                    if *exec {
                        self.executed(*pid, *time_ns, &name, tables);
                    } else if pid == tid {
                        self.renamed(*pid, &name);
                    }
                }
                Record::Fork { pid, parent_pid, .. } if pid != parent_pid => {
                    self.meet(*pid, *time_ns);
                    self.forked(*parent_pid, *pid, *time_ns);
                }
                // One that no sample has hit is not known in the kernel: its first thread has to do for it.
                Record::Exit { pid, tid, .. }
                    if self.known.contains_key(pid) && (pid == tid || !self.system) =>
                {
                    ended.insert((*pid, *time_ns));
                }
                // Something is missing: the truth is in /proc.
                Record::Lost(_) => {
                    self.known
                        .values_mut()
                        .filter(|process| process.alive)
                        .for_each(|p| p.read_wanted = true);
                }
                _ => {}
            }
        }
        self.strangers = strangers;
        self.meet_strangers();
        self.meet_wakers();
        for (pid, time_ns) in ended {
            // The exit program has removed the process when its last thread ended; unless it ended before it was
            // entered.
            if kernel.process_image(pid).is_none() || has_ended(pid) {
                self.ended(pid, time_ns, tables);
            } else {
                self.leaving.insert(pid, Leaving::new(clock::monotonic_ns()));
            }
        }
        self.look_at_leaving(tables);
    }

    fn look_at_leaving(&mut self, tables: &mut Tables) {
        let now_ns = clock::monotonic_ns();
        let mut ended = Vec::new();
        self.leaving.retain(|pid, leaving| {
            if now_ns < leaving.look_ns {
                return true;
            }
            if has_ended(*pid) {
                ended.push(*pid);
                return false;
            }
            leaving.later(now_ns)
        });
        for pid in ended {
            self.ended(pid, now_ns, tables);
        }
    }

    fn mapped(&mut self, mmap: &Mmap) {
        let Some(process) = self.known.get_mut(&mmap.pid).filter(|process| process.alive) else { return };
        let Some(program) = process.now() else { return };
        let mapping = NewMapping {
            start: Avma(mmap.address),
            len: mmap.len,
            offset: FileOffset(mmap.file_offset),
            dev_major: mmap.dev_major,
            dev_minor: mmap.dev_minor,
            inode: mmap.inode,
            executable: mmap.executable,
            path: &mmap.path,
        };
        Arc::make_mut(&mut program.image).apply_mmap(&mapping, &self.files);
        self.dirty.insert(mmap.pid);
        self.look_for_unreadable_files(mmap.pid);
    }

    fn executed(&mut self, pid: u32, time_ns: u64, comm: &str, tables: &mut Tables) {
        let alive = self.known.get_mut(&pid).filter(|process| process.alive);
        if alive.is_none() && !self.system {
            return;
        }
        let exe =
            std::fs::read_link(format!("/proc/{pid}/exe")).ok().map(|exe| exe.to_string_lossy().into_owned());
        let image = |start| Image::new(pid, start, comm.to_owned(), exe, Vec::new());
        let Some(process) = alive else {
            // Its mappings come with the records that follow.
            let start = process::task::start_time(pid).unwrap_or_default();
            self.enter_program(image(start), Life::begun(pid, start, time_ns), time_ns);
            return;
        };
        let Some(start) = process.now().map(|program| program.image.start_time_ticks) else { return };
        let image = image(start);
        let labels = self.labeller.labels(&image);
        let program = Program::new(image, Life::begun(pid, start, time_ns), labels, time_ns);
        self.renames_skipped += u64::from(process.begin(program));
        process.read_wanted = true;
        process.read_ns = 0;
        tables.forget(pid);
        self.dirty.insert(pid);
    }

    /// A process calls itself otherwise.
    pub(super) fn renamed(&mut self, pid: u32, comm: &str) {
        let Some(process) = self.known.get_mut(&pid).filter(|process| process.alive) else { return };
        let skipped = match process.rename(comm, clock::monotonic_ns()) {
            Renamed::Now => {
                self.dirty.insert(pid);
                false
            }
            Renamed::Later { instead } => {
                self.renaming.insert(pid);
                instead
            }
            Renamed::Not { instead } => instead,
        };
        self.renames_skipped += u64::from(skipped);
    }

    fn forked(&mut self, parent: u32, child: u32, time_ns: u64) {
        let parent = self.known.get_mut(&parent).filter(|process| !process.waker_only);
        let Some(program) = parent.and_then(|parent| parent.present()) else { return };
        let (mut image, comm) = (Image::clone(program.image), program.comm.to_owned());
        let start = process::task::start_time(child).unwrap_or_default();
        (image.pid, image.comm, image.start_time_ticks) = (child, comm, start);
        self.enter_program(image, Life::begun(child, start, time_ns), time_ns);
    }

    fn ended(&mut self, pid: u32, time_ns: u64, tables: &mut Tables) {
        if let Some(process) = self.known.get_mut(&pid) {
            process.alive = false;
            self.renames_skipped += u64::from(process.end(time_ns));
            tables.forget(pid);
            self.gone.push((pid, time_ns));
        }
    }
}
