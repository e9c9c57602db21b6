#!/usr/bin/env bash
# Installs the Debian packages that are missing for a purpose; prints what it does, and does nothing if all are there.
#   packages.sh PURPOSE…     build | deb | demo | test | truth | long
set -euo pipefail

# COMMAND:PACKAGE where any provider of the command will do, FILE:PACKAGE, or :PACKAGE for the package itself.
build=(gcc:gcc make:make pkg-config:pkg-config clang:clang /usr/include/stdlib.h:libc6-dev
    /usr/include/libelf.h:libelf-dev /usr/include/zlib.h:zlib1g-dev)
deb=(dpkg-shlibdeps:dpkg-dev objcopy:binutils gzip:gzip)
demo=(:python3)
test=(/usr/lib/apache2/modules/mod_wsgi.so:libapache2-mod-wsgi-py3 chromium:chromium dwz:dwz xz:xz-utils debuginfod:debuginfod bpftool:bpftool g++:g++
    musl-gcc:musl-tools go:golang-go perf:linux-perf clang-format:clang-format :python3
    qemu-system-x86_64:qemu-system-x86 cpio:cpio setcap:libcap2-bin setpriv:util-linux kill:procps objcopy:binutils)
# On arm64 these libraries are not cross libraries, and Debian has no such package there.
[ "$(uname -m)" != x86_64 ] || test+=(/usr/aarch64-linux-gnu/lib/libc.so.6:libc6-arm64-cross)
truth=(g++:g++ musl-gcc:musl-tools go:golang-go perf:linux-perf sqlite3:sqlite3 :python3 node:nodejs
    redis-server:redis-server redis-benchmark:redis-tools openssl:openssl offcputime:libbpf-tools)
long=(qemu-system-aarch64:qemu-system-arm aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu cpio:cpio)

PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin
present() {
    case $1 in
    :*) dpkg-query -W -f '${db:Status-Status}' "${1#:}" 2> /dev/null | grep -qx installed ;;
    /*) [ -e "${1%%:*}" ] ;;
    *) command -v "${1%%:*}" > /dev/null ;;
    esac
}

missing=()
for purpose in "$@"; do
    case $purpose in
    build | deb | demo | test | truth | long) declare -n wanted=$purpose ;;
    *) echo "packages.sh: unknown purpose $purpose (build, deb, demo, test, truth, long)" >&2; exit 2 ;;
    esac
    for entry in "${wanted[@]}"; do
        present "$entry" || missing+=("${entry#*:}")
    done
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get > /dev/null; then
    echo "error: these are missing (names of Debian packages): ${missing[*]}" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "error: packages are missing; as root: apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# Servers are installed as programs for tests; none is started as a service.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
install() { apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null; }
install 2> /dev/null || { apt-get update -qq && install; }
