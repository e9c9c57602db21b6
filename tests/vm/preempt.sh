#!/usr/bin/env bash
# Boots Debian kernels with preempt=full under QEMU, where processes on one CPU preempt each other while each hits one uprobe as often as
# it can, and profiles that probe. Each hit must be a sample or counted as lost, and each stack whole and of one process alone.
#   preempt.sh [VERSION…]      default: 6.1 6.12 newest
# SECONDS_OF_HITS: how long they hit it, 60.
# Needs: qemu-system-x86, cpio, gcc, a release build of perf-agent (or $PERF_AGENT). Without QEMU: one line, and success.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
agent=${PERF_AGENT:-$target/release/perf-agent}
seconds=${SECONDS_OF_HITS:-60}
[ $# -gt 0 ] || set -- 6.1 6.12 newest

. "$here/boot.sh"
require tests/vm/preempt.sh "$agent"
gcc -O2 -fomit-frame-pointer -static -o "$work/preempted" "$root/truth/programs/preempted.c"
options=preempt=full

for version in "$@"; do
    kernel=$("$here/kernel.sh" "$version")
    plant "$kernel"
    put_stripped "$agent" /bin/perf-agent
    put "$work/preempted" /bin/preempted
    init ttyS1 << INIT
mount -t debugfs none /sys/kernel/debug; mount -t tracefs none /sys/kernel/tracing
uname -r
status=1
grep -q '(full)' /sys/kernel/debug/sched/preempt || { echo "FAILED   this kernel has no preempt=full: \$(cat /sys/kernel/debug/sched/preempt)"; status=2; }
perf-agent --profile --event uprobe:/bin/preempted:hit --folded-output /tmp/folded -- /bin/preempted $seconds > /tmp/log 2>&1
code=\$?
cat /tmp/log
hits=\$(sed -n 's/^hits //p' /tmp/log)
samples=\$(awk '{ n += \$NF } END { printf "%d", n }' /tmp/folded)
lost=\$(sed -n 's/.*named, \([0-9]*\) lost.*/\1/p' /tmp/log | head -n 1)
foreign=\$(awk '
    function chain(side, frames,   text, i) {
        text = side "_main"
        for (i = 0; i < frames; i++) text = text ";" side "_chain"
        return "main;" text ";hit"
    }
    BEGIN { right["left"] = chain("left", 20); right["right"] = chain("right", 33); right["above"] = chain("above", 7) }
    { stack = \$0; sub(/ [0-9]*\$/, "", stack); ok = 0
      for (side in right) if (substr(stack, length(stack) - length(right[side]) + 1) == right[side]) ok = 1
      if (!ok) { n += \$NF; print "not a stack of one process: " \$0 > "/dev/stderr" } }
    END { printf "%d", n }' /tmp/folded)
echo "\$hits hits, \$samples samples, \$lost lost, \$foreign foreign or cut"
if [ \$code = 0 ] && [ \$status = 1 ] && [ "\$hits" -gt 0 ] && [ "\$((samples + lost))" = "\$hits" ] && [ "\$foreign" = 0 ]; then
    status=0; echo "ok       preempt=full"
fi
INIT
    boot_x86 "$version" "$kernel"
done
exit "$failed"
