//! File systems that always answer: the state of an open file is in the memory of the kernel.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags, fstatfs, statx};

/// `f_type` of file systems of this machine (include/uapi/linux/magic.h and their own headers). Others may ask a server or a program:
/// FUSE, NFS, SMB, 9p, Ceph and so on.
const LOCAL: [i64; 18] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // ZFS
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x9584_58f6, // hugetlbfs
    0x794c_7630, // overlayfs, see `size_and_mtime`
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0x28cd_3d45, // cramfs
    0x9660,      // ISO 9660
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x3153_464a, // JFS
    0x5265_4973, // ReiserFS
];

/// Whether a file lies on such a file system. May block: others are asked too.
pub(crate) fn always_answers(file: impl AsFd) -> bool {
    fstatfs(file).is_ok_and(|found| LOCAL.contains(&found.f_type))
}

/// Size and time of the last modification (ns since the epoch) of an open file, as far as the kernel knows them without asking anybody: a
/// layer of an overlay may lie on another machine.
pub(crate) fn size_and_mtime(file: impl AsFd) -> Option<(u64, i64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(file, "", flags, StatxFlags::SIZE | StatxFlags::MTIME).ok()?;
    let mtime_ns = stat.stx_mtime.tv_sec.saturating_mul(1_000_000_000);
    Some((stat.stx_size, mtime_ns.saturating_add_unsigned(stat.stx_mtime.tv_nsec.into())))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn files_of_this_machine_tell_what_stat_tells() {
        let file = File::open("/proc/self/exe").unwrap();
        let stat = file.metadata().unwrap();
        let mtime_ns = stat.mtime() * 1_000_000_000 + stat.mtime_nsec();
        assert_eq!(size_and_mtime(&file), Some((stat.size(), mtime_ns)));
        // The kernel's own is none: nobody maps its files.
        assert!(!always_answers(File::open("/proc/self/maps").unwrap()));
        assert!(always_answers(tempfile::tempfile().unwrap()), "a file system of this machine");
    }
}
