#!/usr/bin/env bash
# Boots Debian kernels under QEMU and checks perf-agent in them on the known-answer programs that need no library.
#   run.sh [VERSION…]      default: 5.10 6.1 6.12
# Needs: qemu-system-x86, cpio, a release build of perf-agent (or $PERF_AGENT) and of truth. The guests are emulated in
# software: rates and stacks mean something there, times do not, and what the machine beneath is busy with may spoil a
# measurement: each claim has three tries, and says so. Without QEMU: one line, and success.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
agent=${PERF_AGENT:-$target/release/perf-agent}
truth=${TRUTH:-$target/release/truth}
[ $# -gt 0 ] || set -- 5.10 6.1 6.12

for tool in qemu-system-x86_64:qemu-system-x86 cpio:cpio; do
    command -v "${tool%%:*}" > /dev/null || { echo "skipped: tests/vm because ${tool%%:*} is missing (package ${tool#*:})"; exit 0; }
done
for binary in "$agent" "$truth"; do
    [ -x "$binary" ] || { echo "run.sh: $binary is missing: cargo build --release -p cli -p truth" >&2; exit 1; }
done

work=$(mktemp -d "${TMPDIR:-/tmp}/perf-agent-vm.XXXXXX")
qemu=
cleanup() {
    [ -z "$qemu" ] || kill "$qemu" 2> /dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

programs=recurse-gcc-O2-static-36,recurse-gcc-O3-lto-static-pie-500,threads-musl-static,signal-altstack-static,vdso-static
programs+=,syscalls-static,threads-64-static
"$truth" build --out "$target/truth" --standalone --only "$programs"

put() { # FILE DESTINATION: with the shared libraries that it needs
    mkdir -p "$tree$(dirname "$2")"
    cp -L "$1" "$tree$2"
    { ldd "$1" 2> /dev/null || true; } | awk '/=> \// { print $3 } /^[ \t]*\// { print $1 }' | while read -r library; do
        mkdir -p "$tree$(dirname "$library")"
        [ -e "$tree$library" ] || cp -L "$library" "$tree$library"
    done
}

failed=0
for version in "$@"; do
    kernel=$("$here/kernel.sh" "$version")
    cache=$(dirname "$(dirname "$kernel")")
    tree=$work/tree
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,proc,sys,dev,tmp,root,truth}
    cp "$cache/busybox" "$tree/bin/busybox"
    put "$agent" /bin/perf-agent
    put "$truth" /bin/truth
    find "$target/truth" -maxdepth 1 -type f -perm -u+x -exec cp {} "$tree/truth/" \;
    # The whole guest: no login, no service; what the check prints goes to the second serial port.
    cat > "$tree/init" << INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root PERF_AGENT=/bin/perf-agent
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
mount -t debugfs none /sys/kernel/debug 2> /dev/null
stty -F /dev/ttyS1 raw -echo
uname -r > /dev/ttyS1
truth check --out /truth --prebuilt --standalone --only $programs --seconds 3 --rate 99 --floor 99 --tries 3 > /dev/ttyS1 2>&1
status=\$?
truth offcpu --check --out /truth --prebuilt --standalone --seconds 1.5 --tolerance 35 --per-block-us 1000 --crowd 500 --tries 3 > /dev/ttyS1 2>&1 || status=1
# A processor that goes away and comes back during a capture, once it has begun; on a slow machine later than thought.
seen=1
for seconds in 4 8 16; do
    perf-agent --profile --profile-output /tmp/c --offcpu --offcpu-output /tmp/o --pmu --pmu-output /tmp/p --per-pid --duration \${seconds}s -a > /tmp/log 2>&1 &
    sleep \$((seconds / 2)); echo 0 > /sys/devices/system/cpu/cpu1/online; sleep \$((seconds / 4)); echo 1 > /sys/devices/system/cpu/cpu1/online
    # It is not seen to be away where perf-agent does not get to look as long.
    if wait \$! && grep -qE 'CPU 1 (came online|was offline for a moment)' /tmp/log; then seen=0; break; fi
done
if [ \$seen = 0 ]; then echo "ok       a processor goes and comes" > /dev/ttyS1; else status=1; cat /tmp/log > /dev/ttyS1; fi
# The same while perf-agent does not run, as when a machine sleeps; what then runs there must be in the profile.
mount -t cgroup2 none /sys/fs/cgroup; mkdir -p /sys/fs/cgroup/sleep; cp /bin/busybox /tmp/busybox-late; ifconfig lo 127.0.0.1 up
begun() { for i in \$(seq 60); do grep -q 'metrics are served' /tmp/log && return; sleep 0.5; done; }
frozen() { for i in 1 2 3 4 5 6 7 8 9 10; do grep -q "frozen \$1" /sys/fs/cgroup/sleep/cgroup.events && return; sleep 0.2; done; }
seen=1
for seconds in 4 8 16; do
    perf-agent --profile --folded-output /tmp/f --pmu --pmu-output /tmp/p --per-pid --metrics-listen 127.0.0.1:0 \
        --duration \${seconds}s -a > /tmp/log 2>&1 &
    agent=\$!
    begun; echo \$agent > /sys/fs/cgroup/sleep/cgroup.procs
    echo 1 > /sys/fs/cgroup/sleep/cgroup.freeze; frozen 1
    echo 0 > /sys/devices/system/cpu/cpu1/online; echo 1 > /sys/devices/system/cpu/cpu1/online
    echo 0 > /sys/fs/cgroup/sleep/cgroup.freeze; frozen 0
    sleep 0.5; timeout \$((seconds / 4)) taskset 2 /tmp/busybox-late sh -c 'while :; do :; done'
    if wait \$agent && grep -q 'CPU 1 was offline for a moment' /tmp/log && grep -q "^busybox-late" /tmp/f; then seen=0; break; fi
done
if [ \$seen = 0 ]; then echo "ok       a processor goes and comes unseen" > /dev/ttyS1; else status=1; cat /tmp/log > /dev/ttyS1; fi
echo "exit status \$status" > /dev/ttyS1
poweroff -f
INIT
    chmod +x "$tree/init"
    (cd "$tree" && find . -print0 | cpio --null -o -H newc --quiet -R 0:0) > "$work/initrd"
    : > "$work/output"
    timeout 600 qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot -smp 2 -m 2048 \
        -machine q35,hpet=off -cpu max -accel tcg,thread=single,tb-size=512 \
        -kernel "$(find "$kernel/boot" -name 'vmlinuz-*' -print -quit)" -initrd "$work/initrd" \
        -chardev "file,id=console,path=$work/console" -serial chardev:console \
        -chardev "file,id=output,path=$work/output" -serial chardev:output \
        -append "console=ttyS0 rdinit=/init panic=-1 oops=panic quiet nokaslr no_timer_check tsc=reliable" &
    qemu=$!
    wait "$qemu" || true
    qemu=
    echo "== kernel $version"
    tr -d '\r' < "$work/output"
    if ! grep -q '^exit status 0' "$work/output"; then
        failed=1
        echo "run.sh: perf-agent failed on kernel $version; end of the console:" >&2
        tail -n 15 "$work/console" >&2
    fi
done
exit "$failed"
