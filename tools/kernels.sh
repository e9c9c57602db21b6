#!/usr/bin/env bash
# Boots a guest for each kernel (tests/vm/run.sh), as many at once as there are cores. One line for each kernel, and the end of the log
# of those that fail; the last line is `N passed, N failed, N skipped`. Logs: target/kernels.
#   kernels.sh [VERSION…]      default: 5.10 6.1 6.12 newest
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:$HOME/.cargo/bin:/usr/local/go/bin:/usr/sbin:/sbin
logs=${CARGO_TARGET_DIR:-$PWD/target}/kernels
kernels=(5.10 6.1 6.12 newest)
[ $# = 0 ] || kernels=("$@")
passed=0 failed=0 skipped=0

total() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ]
    exit
}

if [ "$(uname -m)" != x86_64 ]; then
    for kernel in "${kernels[@]}"; do echo "skipped: kernel $kernel: the guests are x86-64, this machine is $(uname -m)"; done
    skipped=${#kernels[@]}
    total
fi
command -v cargo > /dev/null || { echo "error: cargo is missing: install stable Rust, see https://rustup.rs" >&2; exit 1; }
# Without root and QEMU, the guests are skipped.
tools/packages.sh build kernels || [ "$(id -u)" != 0 ] || exit 1
cargo build --release --locked -p cli -p truth || exit 1
rm -rf "$logs"
mkdir -p "$logs"
export PERFAGENT_PYTHONS=${PERFAGENT_PYTHONS-$(tools/pythons.sh)}

# Boots one guest and writes its verdict to a file: `ok`, `FAILED`, or why it was skipped.
boot() { # KERNEL
    local log=$logs/$1.log start=$SECONDS child= verdict release cpu
    trap '[ -z "$child" ] || kill "$child"; exit 1' INT TERM
    tests/vm/run.sh "$1" > "$log" 2>&1 < /dev/null &
    child=$!
    if wait "$child"; then
        verdict=$(sed -n 's/^skipped: tests\/vm //p' "$log" | head -n 1)
    else
        verdict=FAILED
    fi
    echo "${verdict:=ok}" > "$logs/$1.verdict"
    release=$(grep -m 1 -E '^[0-9]+\.[0-9]+\..*amd64$' "$log")
    times > "$logs/$1.times"
    cpu=$(awk -F '[ms ]' 'NR == 2 { printf "%d", $1 * 60 + $2 + $4 * 60 + $5 }' "$logs/$1.times")
    case $verdict in ok | FAILED) ;; *) return ;; esac
    # At one go: another guest may end at the same time.
    echo "$(
        printf 'kernel %-8s %-36s %-6s %4d s, %d s of CPU time\n' "$1" "$release" "$verdict" $((SECONDS - start)) "$cpu"
        [ "$verdict" != FAILED ] || tail -n 40 "$log" | sed 's/^/    /'
    )"
}

guests=()
trap 'kill "${guests[@]}" 2> /dev/null; wait; exit 1' INT TERM
for kernel in "${kernels[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    boot "$kernel" &
    guests+=($!)
done
wait

for kernel in "${kernels[@]}"; do
    verdict=$(cat "$logs/$kernel.verdict")
    case $verdict in
    ok) passed=$((passed + 1)) ;;
    FAILED) failed=$((failed + 1)) ;;
    *) skipped=$((skipped + 1)); echo "skipped: kernel $kernel: $verdict" ;;
    esac
done
total
