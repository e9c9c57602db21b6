#!/usr/bin/env bash
# Packs what `make build` made for Debian and its kin: perf-agent, and perf-agent-dbgsym with the debug information.
#   deb.sh BUILT OUT
# DEBFULLNAME and DEBEMAIL name the maintainer, as for Debian's own tools. The same sources give the same package.
set -euo pipefail
cd "$(dirname "$0")/.."
built=$1 out=$2

version=$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml)-1
architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-perf-agent developers} <${DEBEMAIL:-root@localhost}>"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2> /dev/null || date +%s)}"
export SOURCE_DATE_EPOCH

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
main=$scratch/perf-agent symbols=$scratch/perf-agent-dbgsym
umask 022
mkdir -p "$main" "$symbols"

tools/install.sh "$built" "$main/usr" > "$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
share=$main/usr/share documents=$main/usr/share/doc/perf-agent
gzip -9n "$share"/man/man1/*.1
# Where Debian's zsh looks.
mkdir -p "$share/zsh/vendor-completions"
mv "$share/zsh/site-functions/_perf-agent" "$share/zsh/vendor-completions/"
rmdir "$share/zsh/site-functions"

# Debuggers find it by the build-id of the program.
id=$(readelf -n "$main/usr/bin/perf-agent" | sed -nE 's/^ *Build ID: ([0-9a-f]+)$/\1/p')
[ -n "$id" ] || { echo "error: $built/perf-agent has no build-id: link it with --build-id" >&2; exit 1; }
install -D -m 644 "$main/usr/bin/.debug/perf-agent.debug" "$symbols/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
rm -r "$main/usr/bin/.debug"

install -D -m 644 -t "$documents" README.md SECURITY.md
install -D -m 644 -t "$documents/docs" docs/*.md
[ ! -d docs/images ] || install -D -m 644 -t "$documents/docs/images" docs/images/*
gzip -9nc CHANGELOG.md > "$documents/changelog.gz"
{
    cat << 'TEXT'
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: perf-agent

Files: *
Copyright: the perf-agent contributors
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.

Files: bpf/*
Copyright: the perf-agent contributors
License: GPL-2.0-only or Apache-2.0
 On Debian systems the texts are in /usr/share/common-licenses/GPL-2 and /usr/share/common-licenses/Apache-2.0.
Comment:
 The program contains libelf of elfutils (GPL-2+ or LGPL-3+; https://sourceware.org/elfutils), zlib (Zlib; https://zlib.net), libbpf
 (LGPL-2.1-only or BSD-2-Clause; https://github.com/libbpf/libbpf), and these Rust packages of https://crates.io:
TEXT
    cargo tree --locked --quiet -p cli -e normal --prefix none --format ' {p}: {l}' |
        sed -E 's/ \((proc-macro|\*)\)//g; / \(\//d; s/ v([0-9])/ \1/' | LC_ALL=C sort -u
} > "$documents/copyright"
install -D -m 644 "$documents/copyright" "$symbols/usr/share/doc/perf-agent-dbgsym/copyright"

# The packages of the libraries that the program loads.
mkdir "$scratch/debian"
printf 'Source: perf-agent\n\nPackage: perf-agent\nArchitecture: any\n' > "$scratch/debian/control"
depends=$(cd "$scratch" && dpkg-shlibdeps -O "$main/usr/bin/perf-agent" | sed -n 's/^shlibs:Depends=//p')

pack() { # TREE, the control file without sizes on standard input
    local tree=$1 package=${1##*/}
    mkdir "$tree/DEBIAN"
    cat > "$tree/DEBIAN/control"
    {
        echo "Installed-Size: $(du -k -s --apparent-size "$tree" | cut -f 1)"
        echo "Maintainer: $maintainer"
        echo "Architecture: $architecture"
        echo "Version: $version"
    } >> "$tree/DEBIAN/control"
    (cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) > "$tree/DEBIAN/md5sums"
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    local deb=$out/${package}_${version}_$architecture.deb
    dpkg-deb --root-owner-group -Zxz --build "$tree" "$deb" > /dev/null
    echo "wrote $deb ($(stat -c %s "$deb") bytes)"
}

mkdir -p "$out"
pack "$main" << TEXT
Package: perf-agent
Section: devel
Priority: optional
Depends: $depends
Description: profiler with complete stacks, without frame pointers
 It shows where the CPU time of processes, of a command or of the whole machine
 goes, and where threads wait. Stacks are unwound inside the kernel by the
 programs' own unwind information, so nothing needs to be rebuilt or restarted.
 Outputs are pprof, folded stacks and flame graphs.
 .
 It needs Linux 5.8 or later with BTF, and root or file capabilities: run
 "perf-agent doctor" to see what works on a machine.
TEXT
pack "$symbols" << TEXT
Package: perf-agent-dbgsym
Section: debug
Priority: optional
Depends: perf-agent (= $version)
Description: debug symbols for perf-agent
TEXT
