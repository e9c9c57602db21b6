//! What lies in the directory, and what is removed of it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use profile::BuildId;

use crate::entry::Entry;

/// Temporary files and markers that are older were left behind.
const STALE: Duration = Duration::from_secs(3600);
/// Names that are looked at. There are as many directories as values of a byte.
const MAX_NAMES: usize = 1 << 20;

/// How much room there is after some was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// Whether the new file fits.
    pub(crate) is_enough: bool,
    /// Files that were removed.
    pub(crate) removed: u64,
    /// Bytes of the files, the new one included if it fits.
    pub(crate) bytes: u64,
}

struct Found {
    path: PathBuf,
    modified: SystemTime,
    len: u64,
}

/// Removes what was left behind, then the files that were not used for longest, except those in `used`, until a new file of `new` bytes
/// fits. The caller holds the lock of the directory.
pub(super) fn make_room(root: &Path, new: u64, max: u64, used: &[PathBuf]) -> io::Result<Room> {
    let mut files = files(root)?;
    files.sort_by_key(|file| file.modified);
    let mut room = Room { bytes: files.iter().map(|file| file.len).sum(), ..Room::default() };
    for file in files {
        if room.bytes.saturating_add(new) <= max {
            break;
        }
        if !used.contains(&file.path) && std::fs::remove_file(&file.path).is_ok() {
            room.bytes -= file.len;
            room.removed += 1;
        }
    }
    room.is_enough = room.bytes.saturating_add(new) <= max;
    room.bytes += if room.is_enough { new } else { 0 };
    Ok(room)
}

/// The fetched files. Removes what was left behind.
fn files(root: &Path) -> io::Result<Vec<Found>> {
    let folders = match std::fs::read_dir(root.join(BuildId::FOLDER)) {
        Ok(folders) => folders,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for folder in folders.flatten().take(MAX_NAMES) {
        let Ok(names) = std::fs::read_dir(folder.path()) else { continue };
        for name in names.flatten().take(MAX_NAMES) {
            let entry =
                Entry::parse(folder.file_name().as_encoded_bytes(), name.file_name().as_encoded_bytes());
            let (Some(entry), Ok(meta)) = (entry, name.metadata()) else { continue };
            let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_stale = modified.elapsed().is_ok_and(|age| age > STALE);
            match entry {
                Entry::File(_) => found.push(Found { path: name.path(), modified, len: meta.len() }),
                Entry::Missing(_) | Entry::Temporary if is_stale => {
                    let _ = std::fs::remove_file(name.path());
                }
                Entry::Missing(_) | Entry::Temporary => {}
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn put(root: &Path, name: &str, len: usize, age_s: u64) -> PathBuf {
        let path = root.join(BuildId::FOLDER).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, vec![0; len]).unwrap();
        let at = SystemTime::now() - Duration::from_secs(age_s);
        File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        path
    }

    #[test]
    fn the_least_recently_used_files_go_first_and_those_in_use_stay() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let oldest = put(root, "01/020304.debug", 100, 4000);
        let used = put(root, "02/020304.debug", 100, 3000);
        let newer = put(root, "03/020304", 100, 2000);
        let newest = put(root, "03/020305.debug", 100, 10);
        let foreign = put(root, "03/notes.txt", 1000, 9000);
        let room = make_room(root, 50, 350, std::slice::from_ref(&used)).unwrap();
        assert_eq!(room, Room { is_enough: true, removed: 1, bytes: 350 });
        assert_eq!([&oldest, &used, &newer, &newest].map(|path| path.exists()), [false, true, true, true]);
        let room = make_room(root, 50, 150, std::slice::from_ref(&used)).unwrap();
        assert_eq!(room, Room { is_enough: true, removed: 2, bytes: 150 });
        let room = make_room(root, 51, 150, std::slice::from_ref(&used)).unwrap();
        assert_eq!(room, Room { is_enough: false, removed: 0, bytes: 100 });
        assert!(foreign.exists() && used.exists());
    }

    #[test]
    fn what_killed_processes_left_behind_is_removed_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let stale = [put(root, "01/.020304.debug.7.0.tmp", 9, 3700), put(root, "01/020304.missing", 9, 3700)];
        let young = [put(root, "01/.020304.debug.7.1.tmp", 9, 3500), put(root, "01/020305.missing", 9, 30)];
        assert_eq!(make_room(root, 0, 100, &[]).unwrap().bytes, 0);
        assert!(stale.iter().all(|path| !path.exists()));
        assert!(young.iter().all(|path| path.exists()));
    }

    #[test]
    fn an_empty_cache_has_room() {
        let folder = tempfile::tempdir().unwrap();
        assert!(make_room(folder.path(), 5, 5, &[]).unwrap().is_enough);
        assert!(!make_room(folder.path(), 6, 5, &[]).unwrap().is_enough);
    }
}
