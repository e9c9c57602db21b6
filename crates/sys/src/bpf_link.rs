//! A BPF program at a perf event by a link: `bpf(BPF_LINK_CREATE)`, from Linux 5.15 on.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const LINK_CREATE: libc::c_int = 28;
const PERF_EVENT: u32 = 41;

/// The part of `union bpf_attr` for links, with room for the cookie.
#[repr(C)]
#[derive(Default)]
struct LinkAttr {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

const _: () = assert!(size_of::<LinkAttr>() == 24);

/// Runs the program at every overflow of the event, until the link is closed.
///
/// # Errors
/// The errno of `bpf(2)`: `EINVAL` before Linux 5.15, `EEXIST` if the event has a program already.
pub fn link(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let number = |fd: BorrowedFd<'_>| u32::try_from(fd.as_raw_fd()).map_err(io::Error::other);
    let attr = LinkAttr {
        program: number(program)?,
        target: number(event)?,
        attach_type: PERF_EVENT,
        ..LinkAttr::default()
    };
    // SAFETY: `attr` is a live, initialized attribute of the length that is given; the kernel only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, LINK_CREATE, &raw const attr, size_of::<LinkAttr>()) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::perf::{Attr, SW_CPU_CLOCK, TYPE_SOFTWARE, open};

    /// A program for perf events that returns 0.
    fn program() -> io::Result<OwnedFd> {
        // r0 = 0; exit.
        let instructions: [u64; 2] = [0xb7, 0x95];
        let licence = c"GPL";
        // `prog_type` and `insn_cnt`, then pointers to the instructions and to the licence, and zeros.
        let attr: [u64; 16] = {
            let mut attr = [0; 16];
            attr[0] = 7 | 2 << 32;
            attr[1] = instructions.as_ptr() as u64;
            attr[2] = licence.as_ptr() as u64;
            attr
        };
        // SAFETY: the attribute and all that it points to live until the call returns; the kernel only reads them.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, 5, attr.as_ptr(), size_of_val(&attr)) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created this descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) })
    }

    #[test]
    fn an_event_has_one_program_until_its_link_is_closed() {
        let attr =
            Attr { kind: TYPE_SOFTWARE, config: SW_CPU_CLOCK, sample_period: 1 << 40, ..Attr::default() };
        let (Ok(event), Ok(program)) = (open(&attr, 0, -1, None), program()) else {
            testkit::skip!("BPF programs or perf events are not permitted");
        };
        let link_it = || link(event.as_fd(), program.as_fd());
        let linked = match link_it() {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                testkit::skip!("the kernel has no such links")
            }
            linked => linked.unwrap(),
        };
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", linked.as_raw_fd())).unwrap();
        assert!(info.contains("link_type:\tperf"), "{info}");
        assert_eq!(link_it().unwrap_err().raw_os_error(), Some(libc::EEXIST));
        drop(linked);
        assert!(link_it().is_ok());
    }
}
