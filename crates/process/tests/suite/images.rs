//! Images of real processes, checked against what else is known about them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use object::{Object, ObjectSymbol};
use process::{Error, FileKind, Files, Image, RegionKind, read_image};
use profile::Avma;
use testkit::{Process, until};

/// A process whose image is read.
struct Running(Process);

impl Running {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(Process::start(command).unwrap())
    }

    /// Waits until it executes another program. False if it has ended instead.
    fn becomes(&mut self, name: &str) -> bool {
        let mut ended = false;
        until(name, || {
            ended = self.0.try_wait().unwrap().is_some();
            ended || process::task::comm(self.0.id()).ok().as_deref() == Some(name)
        });
        !ended
    }

    /// The image after the dynamic loader has finished: the process waits, and nothing was mapped for a while.
    fn image(&self, files: &Files) -> Image {
        let ranges = |image: &Image| {
            image.regions().iter().map(|region| (region.start, region.end)).collect::<Vec<_>>()
        };
        let mut image = read_image(self.0.id(), files).unwrap();
        let mut settled = None;
        until("it maps its libraries", || {
            let waits = matches!(state(self.0.id()), 'S' | 'Z');
            std::thread::sleep(Duration::from_millis(50));
            let next = read_image(self.0.id(), files).unwrap();
            if waits && next.regions().len() >= 4 && ranges(&next) == ranges(&image) {
                settled = Some(next);
            } else {
                image = next;
            }
            settled.is_some()
        });
        settled.unwrap()
    }
}

fn state(pid: u32) -> char {
    process::task::stat(pid).unwrap().state
}

fn copy_of_sleep(path: &Path) -> PathBuf {
    fs::copy("/bin/sleep", path).unwrap();
    path.to_owned()
}

#[test]
fn own_functions_are_found_at_their_link_time_address() {
    let image = read_image(std::process::id(), &Files::new()).unwrap();
    assert!(image.complete);
    assert_eq!(image.comm, process::task::comm(std::process::id()).unwrap());
    let own = std::env::current_exe().unwrap();
    assert_eq!(image.exe.as_deref(), own.to_str());

    let address = Avma(own_functions_are_found_at_their_link_time_address as *const () as u64);
    let region = image.find(address).unwrap();
    let RegionKind::File(file) = region.kind() else { panic!("{:?}", region.kind()) };
    assert_eq!(file.path(), own.to_str().unwrap());
    let svma = file.svma_of(region.offset_of(address)).unwrap();

    let bytes = file.bytes().unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let symbol = elf.symbols().find(|symbol| symbol.address() == svma.0 && symbol.size() > 0).unwrap();
    assert!(symbol.name().unwrap().contains("own_functions_are_found_at_their_link_time_address"));
}

#[test]
fn regions_agree_with_the_maps_file() {
    let child = Running::start(Command::new("/bin/sleep").arg("1000"));
    let image = child.image(&Files::new());
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.0.id())).unwrap();
    let mut lines = 0;
    for line in maps.lines().filter(|line| line.split(' ').nth(1).unwrap().contains('x')) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        let end = u64::from_str_radix(end, 16).unwrap();
        let region = image.find(Avma(start)).unwrap();
        assert_eq!(region.end.0, end);
        match region.kind() {
            RegionKind::File(file) => {
                assert_eq!(file.path(), fields[5]);
                assert_eq!(region.offset.0, u64::from_str_radix(fields[2], 16).unwrap());
                assert_eq!(file.identity().inode, fields[4].parse::<u64>().unwrap());
                assert_eq!((file.kind(), file.is_pinned()), (FileKind::Elf, true));
            }
            RegionKind::Vdso(file) => assert_eq!((fields[5], file.path()), ("[vdso]", "[vdso]")),
            RegionKind::KernelPage => {
                assert!(["[vsyscall]", "[uprobes]"].contains(&fields[5]), "{}", fields[5])
            }
            other => panic!("{line}: {other:?}"),
        }
        lines += 1;
    }
    assert!(lines >= 3);
    assert_eq!(image.regions().len(), lines);
}

#[test]
fn a_deleted_executable_with_an_odd_name_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = copy_of_sleep(&folder.path().join("a (deleted) b\nc \\012 d"));
    let child = Running::start(Command::new(&path).arg("1000"));
    fs::remove_file(&path).unwrap();
    // Another file with the same name is not mistaken for it.
    fs::copy("/bin/ls", &path).unwrap();
    let files = Files::new();
    let image = child.image(&files);
    let file = image.regions().first().unwrap().file().unwrap();
    if !file.is_pinned() {
        testkit::skip!("deleted files cannot be opened without CAP_CHECKPOINT_RESTORE");
    }
    // A backslash sequence in a file name looks the same as one that the kernel wrote.
    let name = String::from_utf8(path.as_os_str().as_bytes().to_vec()).unwrap().replace("\\012", "\n");
    assert_eq!(file.path(), name);
    assert_eq!(*file.bytes().unwrap(), *fs::read("/bin/sleep").unwrap());
    drop(child);
    assert_eq!(*file.bytes().unwrap(), *fs::read("/bin/sleep").unwrap(), "after the process ended, too");
}

#[test]
fn the_same_path_in_another_mount_namespace_is_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = copy_of_sleep(&folder.path().join("program"));
    let script = format!(
        "mount -t tmpfs none {0} && cp /bin/tail {0}/program && exec {0}/program -f /dev/null",
        folder.path().display()
    );
    let Some(mut command) = testkit::unshare(&["--mount"]) else { return };
    let mut child = Running::start(command.args(["sh", "-c", &script]));
    assert!(child.becomes("program"));
    let image = child.image(&Files::new());
    let file = image.regions().first().unwrap().file().unwrap();
    assert_eq!(file.path(), path.to_str().unwrap());
    assert_eq!(*file.bytes().unwrap(), *fs::read("/bin/tail").unwrap());
}

#[test]
fn a_process_under_another_root_shows_its_own_paths() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "set -e; cd {}; for file in $(ldd /bin/sleep | grep -o '/[^ ]*') /bin/sleep; \
         do mkdir -p .$(dirname $file); cp $file .$file; done; exec chroot . /bin/sleep 1000",
        folder.path().display()
    );
    let mut child = Running::start(Command::new("sh").args(["-c", &script]));
    if !child.becomes("sleep") {
        testkit::skip!("no chroot without CAP_SYS_CHROOT");
    }
    let image = child.image(&Files::new());
    assert_eq!(image.exe.as_deref(), Some("/bin/sleep"));
    assert_eq!(image.regions().first().unwrap().file().unwrap().path(), "/bin/sleep");
}

#[test]
fn processes_share_their_files() {
    let files = Files::new();
    let one = Running::start(Command::new("/bin/sleep").arg("1000"));
    let two = Running::start(Command::new("/bin/sleep").arg("1000"));
    let keys = |image: &Image| -> Vec<_> {
        image.regions().iter().filter_map(|region| region.file().map(|file| file.key())).collect()
    };
    let first = keys(&one.image(&files));
    let pinned = files.pinned();
    assert_eq!(keys(&two.image(&files)), first);
    assert_eq!(files.pinned(), pinned);
}

#[test]
fn a_process_whose_first_thread_ended_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.c");
    let program = folder.path().join("program");
    let text = "#include <pthread.h>\n#include <unistd.h>\n\
                static void *run(void *p) { for (;;) pause(); return p; }\n\
                int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); pthread_exit(0); }\n";
    fs::write(&source, text).unwrap();
    let compiler = testkit::need!("cc");
    let built = Command::new(compiler).arg("-pthread").arg("-o").arg(&program).arg(&source).status();
    assert!(built.unwrap().success());
    let child = Running::start(&mut Command::new(&program));
    until("its first thread has ended", || state(child.0.id()) == 'Z');
    let image = child.image(&Files::new());
    assert_eq!(image.regions().first().unwrap().file().unwrap().path(), program.to_str().unwrap());
    assert_eq!(image.exe.as_deref(), program.to_str());
}

#[test]
fn ended_processes_are_gone_and_zombies_are_empty() {
    let mut child = Command::new("/bin/true").spawn().unwrap();
    until("it has ended", || state(child.id()) == 'Z');
    assert!(read_image(child.id(), &Files::new()).unwrap().regions().is_empty());
    child.wait().unwrap();
    assert!(matches!(read_image(child.id(), &Files::new()), Err(Error::Gone { .. })));
}

#[test]
fn every_process_of_the_machine_is_read_or_refused_with_a_reason() {
    let files = Files::new();
    let mut read = 0;
    for pid in process::task::list_processes().unwrap() {
        match read_image(pid, &files) {
            Ok(_) => read += 1,
            Err(Error::Gone { .. } | Error::Permission { .. }) => {}
            Err(other) => panic!("{pid}: {other}"),
        }
    }
    assert!(read >= 1);
}
