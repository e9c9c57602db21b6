#!/usr/bin/env bash
# Boots Debian kernels under QEMU and checks perf-agent in them on the known-answer programs that need no library, and on programs in Python.
#   run.sh [VERSION…]      default: 5.10 6.1 6.12
# Needs: qemu-system-x86, cpio, gcc, a release build of perf-agent (or $PERF_AGENT) and of truth. The guests are emulated in
# software: rates and stacks are right there, times are not, and other work on the host may spoil a measurement. So each claim
# has three tries, and each failure is printed. Without QEMU: one line, and success.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
agent=${PERF_AGENT:-$target/release/perf-agent}
truth=${TRUTH:-$target/release/truth}
[ $# -gt 0 ] || set -- 5.10 6.1 6.12

. "$here/boot.sh"
require tests/vm "$agent" "$truth"

programs=recurse-gcc-O2-static-36,recurse-gcc-O3-lto-static-pie-500,threads-musl-static,signal-altstack-static,vdso-static
programs+=,syscalls-static,threads-64-static,uprobes-static,high-addresses-static
# Several guests may be prepared at once.
mkdir -p "$target/truth"
flock "$target/truth" "$truth" build --out "$target/truth" --standalone --only "$programs"

# QEMU gives the guest the time stamp counter of this machine. A kernel that measures its rate on a busy machine may be wrong by a
# factor, and then all its times are.
gcc -O2 -o "$work/tsc" "$here/tsc.c"
options=tsc_early_khz=$("$work/tsc")

gcc -O2 -shared -fPIC -o "$work/loads.so" "$here/loads.c" -ldl

# Debian's interpreter, and the newest one of pyenv and tools/pythons.sh that has its layout in itself, with the files that they need.
pythons=$(realpath /usr/bin/python3)
IFS=: read -r -a others <<< "${PERFAGENT_PYTHONS-$("$root/tools/pythons.sh")}"
newest=$(for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[3-9].*/bin/python3 "${others[@]}"; do
    # Python 2 refuses the options, and an unmatched pattern is no program.
    "$python" -I -S -c 'import sys; print(*sys.version_info[:3], sep=".", end=" "); print(sys.argv[1])' "$(realpath "$python")" || true
done 2> /dev/null | sort -V | sed -n '$s/^3\.1[3-9][^ ]* //p')
pythons+=${newest:+ $newest}
put_pythons() {
    local python file
    put "$here/python.py" /python.py
    for python in $pythons; do
        put "$python" "$python"
        for file in $("$python" -I -S "$here/python.py" files | grep '^/.*/lib/'); do put "$file" "$file"; done
        # By this folder the interpreter finds its place.
        mkdir -p "$tree$("$python" -I -S -c 'import os; print(os.path.dirname(os.__file__))')/lib-dynload"
    done
}

for version in "$@"; do
    kernel=$("$here/kernel.sh" "$version")
    plant "$kernel"
    put "$agent" /bin/perf-agent
    put "$truth" /bin/truth
    put "$work/loads.so" /lib/loads.so
    put_pythons
    mkdir "$tree/truth"
    find "$target/truth" -maxdepth 1 -type f -perm -u+x -exec cp {} "$tree/truth/" \;
    init ttyS1 << INIT
mount -t debugfs none /sys/kernel/debug 2> /dev/null
export PERF_AGENT=/bin/perf-agent
uname -r
# Times are those of the emulator.
for modes in --profile "--profile --python off" "--profile --profile-output /tmp/c --offcpu --offcpu-output /tmp/o"; do
    echo "perf-agent \$modes"
    LD_PRELOAD=/lib/loads.so perf-agent \$modes --duration 100ms -- true 2>&1 > /dev/null | grep '^verified'
done
truth check --out /truth --prebuilt --standalone --only $programs --seconds 3 --rate 99 --floor 99 --tries 3
status=\$?
# The emulated processor has 5-level paging. Where the kernel has it too, that program has code and a stack above 47 bits.
if ! grep -qw la57 /proc/cpuinfo; then echo "left out addresses above 47 bits: this kernel has no 5-level paging"
elif timeout 2 /truth/high-static must | grep -q ready; then echo "ok       addresses above 47 bits"
else status=1; echo "FAILED   addresses above 47 bits"; fi
truth offcpu --out /truth --prebuilt --standalone --seconds 1.5 --tolerance 35 --per-block-us 1000 --crowd 500 --tries 3 || status=1
for python in $pythons; do for what in compute nap; do
    # Waits are looked at in one of them: each capture takes a while here.
    [ \$what = compute ] || [ \$python = ${pythons##* } ] || continue
    \$python -I -S /python.py \$what > /tmp/ready & program=\$!
    for i in \$(seq 60); do grep -q ready /tmp/ready && break; sleep 0.5; done
    seen=1
    for try in 1 2 3; do
        mode=--profile; [ \$what = compute ] || mode=--offcpu
        perf-agent \$mode \$mode-output /tmp/python.pb.gz -F 99 --duration 2s --pid \$program > /tmp/log 2>&1 || cat /tmp/log
        \$python -I -S /python.py judge \$what /tmp/python.pb.gz && seen=0 && break
        cat /tmp/log
    done
    kill \$program
    if [ \$seen = 0 ]; then echo "ok       \$python, \$what"; else status=1; echo "FAILED   \$python, \$what"; fi
done; done
# A processor goes offline and online during a capture. On a slow machine the capture begins late, so longer ones follow.
seen=1
for seconds in 4 8 16; do
    perf-agent --profile --profile-output /tmp/c --offcpu --offcpu-output /tmp/o --pmu --pmu-output /tmp/p --per-pid --duration \${seconds}s -a > /tmp/log 2>&1 &
    sleep \$((seconds / 2)); echo 0 > /sys/devices/system/cpu/cpu1/online; sleep \$((seconds / 4)); echo 1 > /sys/devices/system/cpu/cpu1/online
    # perf-agent may not get to run while the processor is offline.
    if wait \$! && grep -qE 'CPU 1 (came online|was offline for a moment)' /tmp/log; then seen=0; break; fi
done
if [ \$seen = 0 ]; then echo "ok       a processor goes and comes"; else status=1; cat /tmp/log; fi
# The same while perf-agent is frozen, as when a machine sleeps. What runs on the processor afterwards must be in the profile.
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
if [ \$seen = 0 ]; then echo "ok       a processor goes and comes unseen"; else status=1; cat /tmp/log; fi
INIT
    boot "$version" "$kernel" ttyS0 qemu-system-x86_64 -machine q35,hpet=off -cpu max -m 2048 -serial chardev:output
done
exit "$failed"
