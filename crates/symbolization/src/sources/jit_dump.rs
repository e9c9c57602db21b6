//! Names of code that was made at run time: from the jitdump that the program maps.

use profile::Avma;
use symbols::{JitCode, JitDump, SourceLine};

use super::file_thread::FileThread;
use super::kept_files::{KeptFile, KeptFiles};
use super::shortfalls::Shortfalls;
use crate::request::{JitProgram, JitRequest, ProgramId, Request};
use crate::source::{Answer, SymbolSource};

/// The jitdumps of programs, read on a thread of their own.
pub(super) struct JitDumpFiles {
    thread: FileThread<JitDumps, ProgramId>,
    /// Look-ups in this interval whose file system did not answer.
    unanswered: u64,
}

/// The jitdumps that were read.
#[derive(Default)]
struct JitDumps {
    dumps: KeptFiles<JitDump>,
    shortfalls: Shortfalls,
}

impl KeptFile for JitDump {
    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read()
    }
}

impl Default for JitDumpFiles {
    fn default() -> Self {
        Self { thread: FileThread::new(JitDumps::default), unanswered: 0 }
    }
}

impl SymbolSource for JitDumpFiles {
    fn name(&self) -> &str {
        "jitdump"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        let Request::Jit(request @ JitRequest { program, live: Some(live), .. }) = request else {
            return Answer::NotMine;
        };
        if !live.has_dump() {
            return Answer::NotMine;
        }
        let (id, request) = (ProgramId::from(&**program), request.clone());
        let found = self.thread.call(id, move |dumps| dumps.lookup(id, &request));
        self.unanswered += u64::from(found.is_err());
        found.ok().flatten().map_or(Answer::NotMine, Answer::Names)
    }

    fn end_interval(&mut self) -> Vec<String> {
        // It reads no file, so it is about no program.
        let nobody = ProgramId { pid: 0, began_ns: 0 };
        let told = self.thread.tell(nobody, |dumps: &mut JitDumps| dumps.shortfalls.take("jitdumps"));
        let mut told = told.unwrap_or_default();
        if std::mem::take(&mut self.unanswered) > 0 {
            told.push("jitdumps whose file system does not answer are not used".to_owned());
        }
        told
    }
}

impl JitDumps {
    fn lookup(&mut self, id: ProgramId, request: &JitRequest) -> Option<Vec<Vec<SourceLine>>> {
        let dump = self.dump(id, &**request.live.as_ref()?)?;
        // Before any look-up: newer code may be where older code was.
        dump.refresh();
        let name = |(address, seen_ns): (&Avma, &u64)| dump.lookup(*address, *seen_ns).into_iter().collect();
        let names = request.addresses.iter().zip(&request.seen_ns).map(name).collect();
        self.note_unread(id);
        self.dumps.release();
        Some(names)
    }

    /// The dump of a program, now the last one.
    fn dump(&mut self, id: ProgramId, live: &dyn JitProgram) -> Option<&mut JitDump> {
        if self.dumps.take_up(id).is_none() {
            if self.dumps.spent(id) >= JitCode::MAX_READ {
                self.shortfalls.tell(id, spent_text(id.pid));
                return None;
            }
            match live.open_dump()? {
                Ok(dump) => {
                    self.shortfalls.forget(id);
                    self.dumps.add(id, dump);
                }
                Err(error) => {
                    let told = format!("the jitdump of process {} is not used: {error}", id.pid);
                    self.shortfalls.tell(id, told);
                    return None;
                }
            }
        }
        let dump = self.dumps.last()?;
        if let Some(ended) = live.ended() {
            dump.end(ended);
        }
        Some(dump)
    }

    fn note_unread(&mut self, id: ProgramId) {
        let Some(dump) = self.dumps.last() else { return };
        let (counts, pid) = (dump.counts(), id.pid);
        let told = if counts.is_spent {
            spent_text(pid)
        } else if dump.was_cut() {
            format!("the jitdump of process {pid} is not read any more: it has become shorter")
        } else if counts.is_damaged {
            format!("the jitdump of process {pid} is read up to a record without a sensible length")
        } else if counts.malformed > 0 || counts.beyond_limits > 0 {
            let (malformed, beyond) = (counts.malformed, counts.beyond_limits);
            format!(
                "of the jitdump of process {pid} not all is used: {malformed} malformed records, {beyond} beyond the limits"
            )
        } else {
            return;
        };
        self.shortfalls.tell(id, told);
    }
}

fn spent_text(pid: u32) -> String {
    let limit = JitCode::MAX_READ >> 30;
    format!("of the jitdump of process {pid} not all is used: {limit} GiB were read")
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::sync::Arc;
    use std::time::SystemTime;

    use recording::ExecInstance;
    use symbols::{JitDumpError, PerfMap, PerfMapError};

    use super::*;

    /// A program that maps this file as its jitdump.
    struct Program(Option<File>);

    impl JitProgram for Program {
        fn ended(&self) -> Option<SystemTime> {
            None
        }

        fn open(&self) -> Option<Result<PerfMap, PerfMapError>> {
            None
        }

        fn has_dump(&self) -> bool {
            self.0.is_some()
        }

        fn open_dump(&self) -> Option<Result<JitDump, JitDumpError>> {
            Some(JitDump::open(self.0.as_ref()?.try_clone().unwrap(), None))
        }
    }

    fn load(time: u64, name: &str) -> Vec<u8> {
        let length = (16 + 40 + name.len() + 1) as u32;
        let numbers = [0u64, 0x10, 0x10, 0x10, 1].map(u64::to_ne_bytes).concat();
        let prefix = [&0u32.to_ne_bytes()[..], &length.to_ne_bytes(), &time.to_ne_bytes()].concat();
        [&prefix, &numbers, name.as_bytes(), b"\0"].concat()
    }

    fn ask(source: &mut JitDumpFiles, file: Option<&File>) -> Answer {
        let program = ExecInstance { pid: 7, began_ns: 1, ended_ns: None, labels: Vec::new() };
        let live: Arc<dyn JitProgram> = Arc::new(Program(file.map(|file| file.try_clone().unwrap())));
        let (addresses, seen_ns) = (vec![Avma(0x10), Avma(0x10), Avma(0x90)], vec![5, 15, 15]);
        let request =
            JitRequest { program: Arc::new(program), live: Some(live), addresses, seen_ns, is_last: false };
        source.lookup(&Request::Jit(request))
    }

    #[test]
    fn places_are_named_by_what_was_there_when_they_were_seen() {
        let mut file = tempfile::tempfile().unwrap();
        let words = [0x4A69_5444u32, 1, 40, 62, 0, 1].map(u32::to_ne_bytes).concat();
        file.write_all(&[&words[..], &[0; 16], &load(1, "old")].concat()).unwrap();
        let mut source = JitDumpFiles::default();
        let names = |answer| {
            let Answer::Names(names) = answer else { panic!("{answer:?}") };
            names
                .iter()
                .map(|lines| lines.first().map_or("", |line| &line.name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(ask(&mut source, Some(&file))), ["old", "old", ""]);
        file.write_all(&load(10, "new")).unwrap();
        assert_eq!(names(ask(&mut source, Some(&file))), ["old", "new", ""]);
        assert!(source.end_interval().is_empty());
        file.write_all(&[1; 16]).unwrap();
        file.write_all(&load(20, "behind")).unwrap();
        ask(&mut source, Some(&file));
        assert_eq!(ask(&mut source, None), Answer::NotMine);
    }

    #[test]
    fn a_file_that_is_no_jitdump_is_told_and_the_next_source_is_asked() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; 4096]).unwrap();
        let mut source = JitDumpFiles::default();
        assert_eq!(ask(&mut source, Some(&file)), Answer::NotMine);
        let told = source.end_interval();
        assert!(told[0].contains("process 7") && told[0].contains("does not begin"), "{told:?}");
    }
}
