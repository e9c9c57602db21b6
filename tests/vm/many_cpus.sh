#!/usr/bin/env bash
# Boots a Debian kernel under QEMU with 256 and with 512 possible CPUs, of which two are there, and checks that perf-agent works and what it takes of
# the kernel's memory for each possible CPU.
#   many_cpus.sh [VERSION]      default: 6.1
# Needs what run.sh needs. Without QEMU: one line, and success.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
agent=${PERF_AGENT:-$target/release/perf-agent}
truth=${TRUTH:-$target/release/truth}
version=${1:-6.1}

# KiB for each possible CPU without and with --offcpu.
most_on=64
most_both=128

. "$here/boot.sh"
require tests/vm/many_cpus.sh "$agent" "$truth"

program=recurse-gcc-O2-static-36
mkdir -p "$target/truth"
flock "$target/truth" "$truth" build --out "$target/truth" --standalone --only "$program"
kernel=$("$here/kernel.sh" "$version")
plant "$kernel"
put_stripped "$agent" /bin/perf-agent
put_stripped "$truth" /bin/truth
mkdir "$tree/truth"
find "$target/truth" -maxdepth 1 -type f -perm -u+x -name "${program%-*}" -exec cp {} "$tree/truth/" \;
init ttyS1 << INIT
export PERF_AGENT=/bin/perf-agent
echo "possible CPUs \$(cat /sys/devices/system/cpu/possible), online \$(cat /sys/devices/system/cpu/online)"
truth check --out /truth --prebuilt --standalone --only $program --seconds 3 --rate 99 --floor 99
status=\$?
# The whole machine, and what a further processor costs, which other programs and their tables must not change.
told() { # PROFILE KEY [END]: what its ledger says; the next string of a profile begins with a 2 and its length
    zcat \$1 | strings -n 4 | sed -n "s/^.*perf-agent\.\$2=\([0-9.]*\)\${3-2}.*/\1/p" | head -n 1
}
for modes in "--profile --profile-output /tmp/on" "--profile --profile-output /tmp/both --offcpu --offcpu-output /tmp/off"; do
    profile=\$(echo \$modes | cut -d' ' -f3)
    for target in "-a --duration 4s" "-- timeout 2 sleep 3"; do
        perf-agent \$modes \$target > /tmp/log 2>&1 || [ "\$target" != "-a --duration 4s" ] || { status=1; cat /tmp/log; }
        [ -s \$profile ] || status=1
        echo "memory \${profile#/tmp/} \$(told \$profile bpf_memory_kib) KiB in the kernel, agent \$(told \$profile agent_rss_peak_kib "") KiB," \
            "\$(told \$profile samples) samples, \$(told \$profile lost) lost: \$target"
    done
done
INIT
for cpus in 256 512; do
    options=possible_cpus=$cpus
    boot_x86 "$version, $cpus possible CPUs" "$kernel"
    grep -q "possible CPUs 0-$((cpus - 1))," "$work/output" || { echo "the kernel has not $cpus possible CPUs" >&2; failed=1; }
    for profile in on both; do
        kib=$(sed -n "s/^memory $profile \([0-9]*\) .*sleep.*/\1/p" "$work/output" | tr -d '\r')
        declare "${profile}_$cpus=${kib:-0}"
    done
done
for profile in on both; do
    few=${profile}_256 many=${profile}_512 most=most_$profile
    each=$(((${!many} - ${!few}) / 256))
    if [ "$each" -gt 0 ] && [ "$each" -lt "${!most}" ]; then
        echo "ok       $each KiB for each possible CPU ($profile), less than ${!most}"
    else
        echo "failed   $each KiB for each possible CPU ($profile), ${!most} allowed"
        failed=1
    fi
done
exit "$failed"
