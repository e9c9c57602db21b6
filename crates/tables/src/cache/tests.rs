use super::*;
use crate::key::Stamp;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> =
    LazyLock::new(|| unwind::compile(&std::fs::read("/lib64/ld-linux-x86-64.so.2").unwrap()).unwrap());

/// Keys of a file that differ in the inode only.
fn file(inode: u64) -> (CacheKey, Owner) {
    let stamp = Stamp { device: 1, inode, size: 3, mtime_ns: 4, ctime_ns: 5 };
    (CacheKey::File(stamp), Owner { stamp: Some(stamp), digest: None })
}

fn cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(&folder.path().join("a/b")).unwrap();
    (folder, cache)
}

#[test]
fn stored_tables_are_loaded() {
    let (_folder, cache) = cache();
    let ((key, owner), (other, _)) = (file(1), file(2));
    assert_eq!(cache.load(&key), None);
    cache.store(owner, &TABLE).unwrap();
    assert_eq!(cache.load(&key).as_ref(), Some(&*TABLE));
    assert_eq!(cache.load(&other), None);
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(mode(cache.path().to_owned()), 0o700);
    assert_eq!(mode(cache.path().join("file-1-1.rows")), 0o600);
}

#[test]
fn one_file_is_found_by_each_of_its_keys() {
    let (_folder, cache) = cache();
    let (key, owner) = file(1);
    let digest = cache.digest(b"content");
    let by_content = CacheKey::Content(digest.unwrap());
    for _ in 0..2 {
        cache.store(Owner { digest, ..owner }, &TABLE).unwrap();
        assert!(cache.load(&key).is_some() && cache.load(&by_content).is_some());
    }
    let inode = |key: &CacheKey| std::fs::metadata(cache.path().join(key.file_name())).unwrap().ino();
    assert_eq!(inode(&key), inode(&by_content));
    assert_eq!(cache.load(&CacheKey::Content(cache.digest(b"other").unwrap())), None);
    cache.store(Owner::default(), &TABLE).unwrap();
    let names = std::fs::read_dir(cache.path()).unwrap().count();
    assert_eq!(names, 3, "both names and the secret");
}

#[test]
fn without_links_each_name_has_a_copy() {
    let (_folder, mut cache) = cache();
    cache.link = |_, _, _| Err(rustix::io::Errno::PERM);
    let (key, owner) = file(1);
    let digest = cache.digest(b"content");
    let by_content = CacheKey::Content(digest.unwrap());
    for _ in 0..2 {
        cache.store(Owner { digest, ..owner }, &TABLE).unwrap();
        assert_eq!(cache.load(&key).as_ref(), Some(&*TABLE));
        assert_eq!(cache.load(&by_content).as_ref(), Some(&*TABLE));
    }
    let metadata = |key: &CacheKey| std::fs::metadata(cache.path().join(key.file_name())).unwrap();
    assert_ne!(metadata(&key).ino(), metadata(&by_content).ino());
    assert_eq!([&key, &by_content].map(|key| metadata(key).mode() & 0o777), [0o600; 2]);
    // No incomplete file has a name, and no other file remains.
    let mut names: Vec<_> =
        std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let mut expected = [key.file_name(), by_content.file_name(), "secret".to_owned()];
    expected.sort();
    assert_eq!(names, expected.map(std::ffi::OsString::from));
    std::fs::write(cache.path().join(key.file_name()), b"cut").unwrap();
    assert!(cache.load(&key).is_none() && cache.load(&by_content).is_some(), "each has its checksum");
}

#[test]
fn damaged_foreign_and_renamed_files_are_removed() {
    let (_folder, cache) = cache();
    let (key, owner) = file(1);
    let file_path = cache.path().join(key.file_name());
    let damage: [fn(&Path); 5] = [
        |file| std::fs::write(file, b"").unwrap(),
        |file| {
            let mut bytes = std::fs::read(file).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(file, bytes).unwrap();
        },
        |file| std::fs::write(file, &std::fs::read(file).unwrap()[..200]).unwrap(),
        |file| std::fs::set_permissions(file, PermissionsExt::from_mode(0o666)).unwrap(),
        |file| std::fs::rename(file.with_file_name("file-1-2.rows"), file).unwrap(),
    ];
    for damage in damage {
        cache.store(file(2).1, &TABLE).unwrap();
        cache.store(owner, &TABLE).unwrap();
        damage(&file_path);
        assert_eq!(cache.load(&key), None);
        assert!(!file_path.exists());
    }
    std::os::unix::fs::symlink("file-1-2.rows", &file_path).unwrap();
    assert_eq!(cache.load(&key), None);
}

#[test]
fn directories_that_are_not_private_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o777, 0o750, 0o701, 0o720] {
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
        let error = Cache::at(folder.path()).unwrap_err();
        assert!(error.to_string().contains(&format!("(mode {mode:o}): it is not used")), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no secret is put there");
    }
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
    assert!(Cache::at(folder.path()).is_ok());
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/tmp", &link).unwrap();
    assert!(matches!(Cache::at(&link), Err(CacheError::Io { .. })));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder.path(), Some(1), None).unwrap();
        assert!(matches!(Cache::at(folder.path()), Err(CacheError::Owner { owner: 1, user: 0, .. })));
    }
}

#[test]
fn the_limit_is_checked_after_a_number_of_bytes() {
    let (_folder, mut cache) = cache();
    cache.cap_bytes = TRIM_PARTS * 3 * (HEADER_LEN + TABLE.byte_size()) as u64;
    let leftover = cache.path().join(".new-1-1");
    let is_checked = |inode| {
        std::fs::write(&leftover, b"x").unwrap();
        let old = SystemTime::now() - Duration::from_secs(7200);
        File::open(&leftover).unwrap().set_modified(old).unwrap();
        cache.store(file(inode).1, &TABLE).unwrap();
        !leftover.exists()
    };
    let checks: Vec<bool> = (1..8).map(is_checked).collect();
    assert_eq!(checks, [true, false, false, true, false, false, true]);
}

#[test]
fn the_least_recently_used_go_first() {
    let (_folder, mut cache) = cache();
    let size = (HEADER_LEN + unwind::encode(&TABLE).len()) as u64;
    cache.cap_bytes = size * 3;
    let files = [1, 2, 3].map(file);
    for (i, (key, owner)) in files.iter().enumerate() {
        cache.store(*owner, &TABLE).unwrap();
        let past = SystemTime::now() - Duration::from_secs(100 - i as u64);
        File::open(cache.path().join(key.file_name())).unwrap().set_modified(past).unwrap();
    }
    let [first, second, third] = files.map(|(key, _)| key);
    assert!(cache.load(&first).is_some());
    std::fs::write(cache.path().join(".new-1-1"), b"x").unwrap();
    // A file with two names counts once.
    let digest = cache.digest(b"content");
    cache.store(Owner { digest, ..file(4).1 }, &TABLE).unwrap();
    assert!(cache.load(&second).is_none());
    assert!(cache.load(&first).is_some() && cache.load(&third).is_some());
    assert!(cache.path().join(".new-1-1").exists());
    let old = SystemTime::now() - Duration::from_secs(7200);
    File::open(cache.path().join(".new-1-1")).unwrap().set_modified(old).unwrap();
    cache.store(file(4).1, &TABLE).unwrap();
    assert!(!cache.path().join(".new-1-1").exists());
    assert!(cache.path().join("secret").exists());
}
