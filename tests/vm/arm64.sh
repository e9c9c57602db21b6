#!/usr/bin/env bash
# Builds perf-agent for aarch64 and checks it in a Debian kernel for aarch64 under QEMU, whose processor has a PMU that
# counts cycles: the stacks of known-answer programs, off-CPU time, hardware counters.
#   arm64.sh [VERSION…]      default: 6.12
# Needs: qemu-system-arm, cpio, gcc-aarch64-linux-gnu, and a Rust compiler with the standard library of aarch64 (rustup
# target add aarch64-unknown-linux-gnu; or name a compiler in RUSTC), or a finished program in PERF_AGENT_ARM64. What is
# missing is one line, and success.
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
libraries=$sysroot/usr/lib/aarch64-linux-gnu
if [ -z "$agent" ]; then
    [ -d "$("${RUSTC:-rustc}" --print target-libdir --target "$triple" 2> /dev/null)" ] ||
        skip "rustc has no standard library for aarch64 (rustup target add $triple)"
    (
        cd "$root"
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C link-arg=--sysroot=$sysroot"
        export CC_aarch64_unknown_linux_gnu=$compiler CFLAGS_aarch64_unknown_linux_gnu=--sysroot=$sysroot
        export LIBBPF_SYS_LIBRARY_PATH_aarch64_unknown_linux_gnu=$libraries
        cargo build --release -p cli --target "$triple"
    )
    agent=${CARGO_TARGET_DIR:-$root/target}/$triple/release/perf-agent
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/perf-agent-vm.XXXXXX")
qemu=
cleanup() {
    [ -z "$qemu" ] || kill "$qemu" 2> /dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

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

failed=0
for version in "$@"; do
    kernel=$("$here/kernel.sh" "$version" arm64)
    tree=$work/tree
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,lib,proc,sys,dev,tmp,root}
    cp "$(dirname "$(dirname "$kernel")")/busybox" "$tree/bin/busybox"
    cp "$agent" "$tree/bin/perf-agent"
    cp -r "$work/programs" "$tree/programs"
    find "$sysroot" \( -name ld-linux-aarch64.so.1 -o -name libc.so.6 -o -name libgcc_s.so.1 \) -exec cp -L {} "$tree/lib/" \;
    cp "$here/arm64-checks.sh" "$tree/checks"
    cat > "$tree/init" << 'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
stty -F /dev/ttyS0 raw -echo
sh /checks > /dev/ttyS0 2>&1
echo "exit status $?" > /dev/ttyS0
poweroff -f
INIT
    chmod +x "$tree/init"
    (cd "$tree" && find . -print0 | cpio --null -o -H newc --quiet -R 0:0) > "$work/initrd"
    : > "$work/output"
    # Pointer authentication by QEMU's own algorithm: the architecture's is slow in software.
    timeout 600 qemu-system-aarch64 -nodefaults -no-user-config -display none -no-reboot -smp 2 -m 1024 \
        -machine virt,gic-version=3 -cpu max,pauth-impdef=on -accel tcg,thread=single,tb-size=512 \
        -kernel "$(find "$kernel/boot" -name 'vmlinuz-*' -print -quit)" -initrd "$work/initrd" \
        -chardev "file,id=console,path=$work/console" -serial chardev:console \
        -chardev "file,id=output,path=$work/output" -device pci-serial,chardev=output \
        -append "console=ttyAMA0 rdinit=/init panic=-1 oops=panic quiet nokaslr" &
    qemu=$!
    wait "$qemu" || true
    qemu=
    echo "== kernel $version, aarch64"
    tr -d '\r' < "$work/output"
    if ! grep -q '^exit status 0' "$work/output"; then
        failed=1
        echo "arm64.sh: perf-agent failed on kernel $version; end of the console:" >&2
        tail -n 15 "$work/console" >&2
    fi
done
exit "$failed"
