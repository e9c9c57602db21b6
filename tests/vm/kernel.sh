#!/usr/bin/env bash
# Unpacks a Debian kernel and a static busybox into a cache, without installing anything.
#   kernel.sh VERSION [ARCHITECTURE]    a prefix: 5.10, 6.1, 6.12; or newest, the newest that Debian has for its stable release, with
#                                       backports; prints the kernel's folder
#   kernel.sh sysroot ARCHITECTURE      unpacks instead the libraries and headers to build perf-agent against; prints the folder
#   kernel.sh rust ARCHITECTURE         unpacks instead Debian's newest Rust compiler, with the standard libraries of that architecture
#                                       and of this machine; prints the compiler
# The busybox lies beside the kernels' folder.
# Uses the mirrors of the system's own package sources, with lists of its own in the cache.
# Cache: $PERF_AGENT_VM_CACHE, else ~/.cache/perf-agent-vm.
set -euo pipefail

die() { echo "kernel.sh: $*" >&2; exit 1; }
[ $# -ge 1 ] && [ $# -le 2 ] || die "usage: kernel.sh VERSION [ARCHITECTURE]"
version=$1
arch=${2:-amd64}
cache=${PERF_AGENT_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/perf-agent-vm}
[ "$arch" = amd64 ] || cache=$cache/$arch
mkdir -p "$cache/kernels"
exec 9>"$cache/lock"
flock 9

apt=$cache/apt
suite_here=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
apt_options=(
    -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State=$apt/state" -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status"
    -o "Dir::Cache=$apt/cache" -o "APT::Architecture=$arch" -o "APT::Architectures=$arch"
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
)

# The address of the first source of this system whose suite matches a pattern.
mirror() {
    apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v suite="$1" '$2 == "main" && $1 ~ suite && !found { found = $3 } END { print found }'
}

read_lists() {
    [ -z "$(find "$apt/updated-with-backports" -mtime -7 2>/dev/null)" ] || return 0
    local main security suite keys=/usr/share/keyrings/debian-archive-keyring.gpg
    main=$(mirror '^[a-z]+$')
    security=$(mirror '-security$')
    [ -n "$main" ] || die "no Debian mirror among this system's package sources"
    mkdir -p "$apt"/state "$apt"/lists/partial "$apt"/cache/archives/partial
    : > "$apt/status"
    for suite in bullseye bookworm trixie trixie-backports; do
        echo "deb [signed-by=$keys] $main $suite main"
        [ -z "$security" ] || [ "$suite" = trixie-backports ] || echo "deb [signed-by=$keys] $security $suite-security main"
    done > "$apt/sources.list"
    # A suite that the mirror no longer has must not stop the others.
    apt-get "${apt_options[@]}" -qq update > "$apt/update.log" 2>&1 || true
    compgen -G "$apt/lists/*Packages*" > /dev/null || die "cannot read package lists: $(tail -3 "$apt/update.log")"
    touch "$apt/updated-with-backports"
}

unpack() { # PACKAGE FOLDER
    local work
    work=$(mktemp -d "$cache/unpack.XXXXXX")
    if (cd "$work" && apt-get "${apt_options[@]}" -qq download "$1" > log 2>&1); then
        dpkg -x "$work"/*.deb "$work/files"
        rm -rf "$2"
        mv "$work/files" "$2"
        rm -rf "$work"
    else
        rm -rf "$work"
        return 1
    fi
}

# Newer packages of this name only depend on one that has the kernel, and has it elsewhere.
unpack_kernel() { # PACKAGE FOLDER
    local found
    unpack "$1" "$2" || return
    compgen -G "$2/boot/vmlinuz-*" > /dev/null && return
    unpack "${1/image/binary}" "$2" && found=$(compgen -G "$2/usr/lib/modules/*/vmlinuz") || return
    mkdir -p "$2/boot" && mv "$found" "$2/boot/vmlinuz-$(basename "$(dirname "$found")")"
}

if [ "$version" = sysroot ]; then
    if ! [ -e "$cache/sysroot/complete" ]; then
        read_lists
        rm -rf "$cache/sysroot"
        mkdir -p "$cache/sysroot"
        for package in libc6 libc6-dev linux-libc-dev libcrypt-dev libgcc-s1 libelf-dev zlib1g zlib1g-dev; do
            # Of the suite that this system is of: its cross compiler and its libraries belong together.
            unpack "$package/$suite_here" "$cache/part" || die "cannot fetch $package"
            cp -a "$cache/part/." "$cache/sysroot/"
            rm -rf "$cache/part"
        done
        touch "$cache/sysroot/complete"
    fi
    echo "$cache/sysroot"
    exit 0
fi

# Debian builds its browsers with a newer compiler than its other packages. Nothing is installed: apt finds out which packages this
# system lacks to run the compiler, and downloads them.
if [ "$version" = rust ]; then
    rust=$cache/rust
    if ! [ -e "$rust/complete" ]; then
        rm -rf "$rust"
        mkdir -p "$rust/packages/partial"
        apt-get -qq -y --no-install-recommends --reinstall --download-only -o Debug::NoLocking=1 \
            -o "Dir::Cache::archives=$rust/packages" install rustc-web libstd-rust-web-dev > "$rust/log" 2>&1 ||
            die "cannot fetch Debian's rustc-web: $(tail -n 1 "$rust/log")"
        number=$(dpkg-deb -f "$rust"/packages/rustc-web_*.deb Version)
        for package in "$rust"/packages/*.deb; do dpkg -x "$package" "$rust"; done
        rm -rf "$rust/packages"
        # A standard library works with one version of the compiler only.
        read_lists
        unpack "libstd-rust-web-dev=$number" "$cache/part" || die "cannot fetch Rust's standard library $number for $arch"
        cp -a "$cache/part/." "$rust/"
        rm -rf "$cache/part"
        libraries=$rust/usr/lib/$(uname -m)-linux-gnu
        cat > "$rust/rustc" << WRAPPER
#!/bin/sh
LD_LIBRARY_PATH=$libraries exec $rust/usr/bin/rustc --sysroot $rust/usr "\$@"
WRAPPER
        chmod +x "$rust/rustc"
        "$rust/rustc" --version > /dev/null || die "Debian's rustc does not run"
        touch "$rust/complete"
    fi
    echo "$rust/rustc"
    exit 0
fi

if [ "$version" = newest ]; then
    read_lists
    version=$(apt-cache "${apt_options[@]}" pkgnames linux-image- |
        sed -nE "s/^linux-image-([0-9].*)-cloud-$arch\$/\1/p" | grep -v -- -rt | sort -V | tail -1)
    [ -n "$version" ] || die "no kernel to be had from this system's mirror"
fi

found() { find "$cache/kernels" -maxdepth 1 -name "linux-image-$version[.-]*" | sort -V | tail -1; }

folder=$(found)
if [ -z "$folder" ]; then
    read_lists
    pattern=${version//./\\.}
    packages=$(apt-cache "${apt_options[@]}" pkgnames linux-image- |
        grep -E "^linux-image-${pattern//+/\\+}([.-].*)?-cloud-$arch\$" | sort -Vr | head -12 || true)
    for package in $packages; do
        unpack_kernel "$package" "$cache/kernels/$package" && break
        rm -rf "${cache:?}/kernels/$package"
    done
    folder=$(found)
    [ -n "$folder" ] || die "no kernel $version to be had from this system's mirror"
fi
if ! [ -x "$cache/busybox" ]; then
    read_lists
    unpack busybox-static "$cache/busybox-static" || die "cannot fetch busybox-static"
    cp "$(find "$cache/busybox-static" -type f -path '*bin/busybox' -print -quit)" "$cache/busybox"
    rm -rf "$cache/busybox-static"
fi
echo "$folder"
