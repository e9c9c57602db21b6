//! Which package of this machine has the symbols of a file.
//!
//! Guaranteed: nothing is run and nothing is downloaded; only the package manager's own lists are read. A file that no package brought, or
//! that is not the recorded one, has no package.

mod apk;
mod dpkg;
mod os_release;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use recording::Module;
use report::{DebugPackage, Packages};

use self::os_release::OsRelease;

/// The packages with the symbols of these files, as far as they are known.
pub(crate) fn of(files: &[&Module]) -> Packages {
    if files.is_empty() {
        return Packages::new();
    }
    let here: Vec<&str> = files.iter().filter(|file| is_here(file)).map(|file| file.path.as_str()).collect();
    in_root(Path::new("/"), &here)
}

/// Whether the file at this path is the one that was recorded, and not one of a container or of another machine.
fn is_here(file: &Module) -> bool {
    let recorded = &file.identity;
    let same = |here: std::fs::Metadata| {
        let mtime_ns = i128::from(here.mtime()) * 1_000_000_000 + i128::from(here.mtime_nsec());
        here.size() == recorded.size && mtime_ns == i128::from(recorded.mtime_ns)
    };
    recorded.inode != 0 && std::fs::metadata(&file.path).is_ok_and(same)
}

fn in_root(root: &Path, paths: &[&str]) -> Packages {
    let os = OsRelease::read(&root.join("etc/os-release"));
    let mut packages = match os.id.as_str() {
        "debian" | "ubuntu" => dpkg::packages(root, &os, paths),
        "alpine" => apk::packages(root, paths),
        "fedora" | "rhel" | "centos" | "rocky" | "almalinux" => {
            paths.iter().filter_map(|path| rpm(path)).collect()
        }
        _ => Packages::new(),
    };
    let server = SERVERS.iter().find(|(id, _)| *id == os.id).map(|(_, url)| *url);
    packages.values_mut().for_each(|package| package.server = server);
    packages
}

/// The debuginfod servers of distributions.
const SERVERS: [(&str, &str); 4] = [
    ("debian", "https://debuginfod.debian.net"),
    ("ubuntu", "https://debuginfod.ubuntu.com"),
    ("fedora", "https://debuginfod.fedoraproject.org"),
    ("centos", "https://debuginfod.centos.org"),
];

/// The database of rpm is not read: the shell asks it. Files outside of the directories of packages are the user's own.
fn rpm(path: &str) -> Option<(String, DebugPackage)> {
    let is_of_package = ["/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/lib64/", "/usr/libexec/"]
        .iter()
        .any(|of| path.starts_with(of));
    let package = DebugPackage {
        install: "dnf debuginfo-install".to_owned(),
        package: format!("$(rpm -qf {path})"),
        archive: None,
        server: None,
    };
    is_of_package.then(|| (path.to_owned(), package))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn said(root: &tempfile::TempDir, path: &str) -> Option<(String, Option<String>)> {
        let packages = in_root(root.path(), &[path]);
        packages.get(path).map(|of| (format!("{} {}", of.install, of.package), of.archive.clone()))
    }

    #[test]
    fn debian_names_the_package_and_the_archive() {
        let mut files = vec![
            ("etc/os-release", "ID=debian\nVERSION_CODENAME=bookworm\n"),
            ("var/lib/dpkg/info/libssl3:amd64.list", "/.\n/usr/lib/libssl.so.3\n"),
            ("var/lib/dpkg/info/libc6:amd64.list", "/.\n/lib/libc.so.6\n/lib/libc.so.60\n"),
            ("var/lib/dpkg/info/python3.11-minimal.list", "/usr/bin/python3.11\n"),
            ("var/lib/dpkg/info/libssl3:amd64.md5sums", "/usr/lib/libother.so\n"),
        ];
        let debian = root(&files);
        let archive = "debian-debug bookworm-debug".to_owned();
        let ssl = Some(("apt-get install libssl3-dbgsym".to_owned(), Some(archive)));
        assert_eq!(said(&debian, "/usr/lib/libssl.so.3"), ssl);
        // The list has the path from before /lib and /usr/lib became one.
        assert_eq!(said(&debian, "/usr/lib/libc.so.6"), Some(("apt-get install libc6-dbg".to_owned(), None)));
        assert_eq!(
            said(&debian, "/usr/bin/python3.11"),
            Some(("apt-get install python3.11-dbg".to_owned(), None))
        );
        for own in ["/srv/app", "/usr/lib/libssl.so", "/usr/lib/libother.so", "libssl.so.3", ""] {
            assert_eq!(said(&debian, own), None, "{own}");
        }
        files.push(("etc/apt/sources.list.d/debug.sources", "URIs: http://mirror.example/debian-debug\n"));
        assert_eq!(said(&root(&files), "/usr/lib/libssl.so.3").unwrap().1, None, "apt knows the archive");
    }

    #[test]
    fn other_distributions_have_their_own_commands() {
        let ubuntu = root(&[
            ("etc/os-release", "NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_CODENAME=noble\n"),
            ("var/lib/dpkg/info/nginx.list", "/usr/sbin/nginx\n"),
        ]);
        let archive = Some("ddebs noble".to_owned());
        assert_eq!(
            said(&ubuntu, "/usr/sbin/nginx"),
            Some(("apt-get install nginx-dbgsym".to_owned(), archive))
        );
        let alpine = root(&[
            ("etc/os-release", "ID=alpine\n"),
            (
                "lib/apk/db/installed",
                "P:busybox\nF:bin\nR:busybox\n\nP:musl\nF:lib\nR:ld-musl-x86_64.so.1\n\n",
            ),
        ]);
        let musl = Some(("apk add musl-dbg".to_owned(), None));
        assert_eq!(said(&alpine, "/lib/ld-musl-x86_64.so.1"), musl);
        assert_eq!(said(&alpine, "/srv/app"), None);
        let fedora = root(&[("etc/os-release", "ID=\"fedora\"\n")]);
        let zlib = Some(("dnf debuginfo-install $(rpm -qf /usr/lib64/libz.so.1)".to_owned(), None));
        assert_eq!(said(&fedora, "/usr/lib64/libz.so.1"), zlib);
        assert_eq!(said(&fedora, "/usr/local/bin/app"), None);
        assert_eq!(said(&root(&[]), "/usr/lib64/libz.so.1"), None);
    }

    #[test]
    fn only_the_recorded_file_has_a_package() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let here = file.as_file().metadata().unwrap();
        let mut module = Module {
            path: file.path().to_str().unwrap().to_owned(),
            build_id: None,
            kind: recording::ModuleKind::Elf,
            identity: recording::FileIdentity {
                inode: here.ino(),
                size: here.size(),
                mtime_ns: here.mtime() * 1_000_000_000 + here.mtime_nsec(),
                ..recording::FileIdentity::default()
            },
        };
        assert!(is_here(&module));
        module.identity.mtime_ns += 1;
        assert!(!is_here(&module));
        module.identity = recording::FileIdentity::default();
        assert!(!is_here(&module));
    }
}
