#!/usr/bin/env bash
# Builds perf-agent for aarch64 and checks it in a Debian kernel for aarch64 under QEMU, whose processor has a PMU that
# counts cycles: the stacks of known-answer programs, off-CPU time, hardware counters.
#   arm64.sh [VERSION…]      default: 6.12
# Needs: qemu-system-arm, cpio, gcc-aarch64-linux-gnu, and a Rust compiler with the standard library of aarch64: the one of this
# machine (rustup target add aarch64-unknown-linux-gnu), the one that RUSTC names, or else Debian's, which is fetched into the
# cache. Or a finished program in PERF_AGENT_ARM64. What is missing is one line, and success.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
triple=aarch64-unknown-linux-gnu
compiler=aarch64-linux-gnu-gcc
agent=${PERF_AGENT_ARM64:-}
[ $# -gt 0 ] || set -- 6.12

skip() { echo "skipped: tests/vm/arm64.sh because $*"; exit 0; }
for tool in qemu-system-aarch64:qemu-system-arm cpio:cpio "$compiler:gcc-aarch64-linux-gnu"; do
    command -v "${tool%%:*}" > /dev/null || skip "${tool%%:*} is missing (package ${tool#*:})"
done
sysroot=$("$here/kernel.sh" sysroot arm64)
target=${CARGO_TARGET_DIR:-$root/target}
if [ -z "$agent" ]; then
    if ! [ -d "$("${RUSTC:-rustc}" --print target-libdir --target "$triple" 2> /dev/null)" ]; then
        RUSTC=$("$here/kernel.sh" rust arm64) ||
            skip "rustc has no standard library for aarch64 (rustup target add $triple), and Debian's cannot be fetched"
        needed=$(sed -nE 's/^rust-version = "(.*)"/\1/p' "$root/Cargo.toml")
        version=$("$RUSTC" --version | awk '{ print $2 }')
        printf '%s\n' "$needed" "$version" | sort -CV ||
            skip "rustc has no standard library for aarch64 (rustup target add $triple), and Debian's is of Rust $version, not $needed"
        export RUSTC
        # Another compiler would replace what the usual one has built.
        target=$target/debian-rust
    fi
    (
        cd "$root"
        export CARGO_TARGET_DIR=$target
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C link-arg=--sysroot=$sysroot"
        export CC_aarch64_unknown_linux_gnu=$compiler CFLAGS_aarch64_unknown_linux_gnu=--sysroot=$sysroot
        cargo build --release -p cli --target "$triple"
    )
    agent=$target/$triple/release/perf-agent
fi

. "$here/boot.sh"

mkdir "$work/programs"
build() { # NAME SOURCE FLAG…
    "$compiler" --sysroot="$sysroot" -O2 -fomit-frame-pointer "${@:3}" "$2" -o "$work/programs/$1"
}
programs=$root/truth/programs
build recurse "$programs/recurse.c"
build recurse-static "$programs/recurse.c" -static
build recurse-signed "$programs/recurse.c" -static -mbranch-protection=standard
build signals "$programs/signals.c"
build vdso "$programs/vdso.c" -static
build frames "$programs/frames.c" -static
build threads "$programs/threads.c" -static -pthread
build cycles "$here/cycles.c" -static

for version in "$@"; do
    kernel=$("$here/kernel.sh" "$version" arm64)
    plant "$kernel"
    cp "$agent" "$tree/bin/perf-agent"
    cp -r "$work/programs" "$tree/programs"
    find "$sysroot" \( -name ld-linux-aarch64.so.1 -o -name libc.so.6 -o -name libgcc_s.so.1 \) -exec cp -L {} "$tree/lib/" \;
    cp "$here/arm64-checks.sh" "$tree/checks"
    init ttyS0 << 'INIT'
sh /checks
status=$?
INIT
    # Pointer authentication by QEMU's own algorithm: the architecture's is slow in software.
    boot "$version, aarch64" "$kernel" ttyAMA0 qemu-system-aarch64 -machine virt,gic-version=3 -smp 2 -cpu max,pauth-impdef=on -m 1024 \
        -device pci-serial,chardev=output
done
exit "$failed"
