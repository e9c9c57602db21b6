#!/usr/bin/env bash
# Unpacks a Debian kernel and a static busybox into a cache, without installing anything.
#   kernel.sh VERSION [ARCHITECTURE]    a prefix: 5.10, 6.1, 6.12; or newest, the newest that Debian has for its stable release, with
#                                       backports; prints the kernel's folder
#   kernel.sh sysroot ARCHITECTURE      unpacks instead the libraries and headers to build perf-agent against; prints the folder
#   kernel.sh rust ARCHITECTURE         unpacks instead Debian's newest Rust compiler, with the standard libraries of that architecture
#                                       and of this machine; prints the compiler
# The busybox lies beside the kernels' folder.
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
suites="bullseye bullseye-security bookworm bookworm-security trixie trixie-security trixie-backports"
suite_here=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
. "$(dirname "$0")/../../tools/debian.sh"

# Newer packages of this name only depend on one that has the kernel, and has it elsewhere.
unpack_kernel() { # PACKAGE FOLDER
    local found
    unpack "$2" "$1" || return
    compgen -G "$2/boot/vmlinuz-*" > /dev/null && return
    unpack "$2" "${1/image/binary}" && found=$(compgen -G "$2/usr/lib/modules/*/vmlinuz") || return
    mkdir -p "$2/boot" && mv "$found" "$2/boot/vmlinuz-$(basename "$(dirname "$found")")"
}

if [ "$version" = sysroot ]; then
    if ! [ -e "$cache/sysroot/complete" ]; then
        read_lists
        # Of the suite that this system is of: its cross compiler and its libraries belong together.
        packages=(libc6 libc6-dev linux-libc-dev libcrypt-dev libgcc-s1 libelf-dev zlib1g zlib1g-dev)
        unpack "$cache/sysroot" "${packages[@]/%//$suite_here}" || die "cannot fetch one of ${packages[*]}"
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
        unpack "$cache/part" "libstd-rust-web-dev=$number" || die "cannot fetch Rust's standard library $number for $arch"
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
    unpack "$cache/busybox-static" busybox-static || die "cannot fetch busybox-static"
    cp "$(find "$cache/busybox-static" -type f -path '*bin/busybox' -print -quit)" "$cache/busybox"
    rm -rf "$cache/busybox-static"
fi
echo "$folder"
