#!/usr/bin/env bash
# Builds perf-agent, profiles a real program with it, and prints where the result is.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:$HOME/.cargo/bin

if [ "$(id -u)" != 0 ]; then
    echo "error: the demo installs packages and loads BPF programs: run it as root (sudo env PATH=\"\$PATH\" make demo)" >&2
    exit 1
fi
command -v cargo > /dev/null || { echo "error: cargo is missing: install stable Rust, see https://rustup.rs" >&2; exit 1; }
tools/packages.sh build demo
echo "building (a few minutes the first time)"
cargo build --release --locked -p cli
agent=${CARGO_TARGET_DIR:-target}/release/perf-agent

# A program that is not ours, as Debian ships it: stripped, without frame pointers.
/usr/bin/python3 tools/demo_workload.py &
program=$!
trap 'kill $program 2> /dev/null || true' EXIT

mkdir -p out
"$agent" --profile --pid "$program" --duration 5s --sample-rate 999 \
    --profile-output out/demo.pb.gz --flamegraph-output out/demo.svg --folded-output out/demo.folded

cat << END

Hottest functions (share of samples in which they were at work themselves):
$(awk '{ count = $NF; sub(/ [0-9]+$/, ""); n = split($0, frame, ";"); self[frame[n]] += count; all += count }
    END { for (f in self) printf "%6.2f %%  %s\n", 100 * self[f] / all, f }' out/demo.folded | sort -rn | head -n 5)

The flame graph    out/demo.svg       open it in a browser; click a frame to zoom
The profile        out/demo.pb.gz     go tool pprof -top out/demo.pb.gz, or -http=: for its web view
Folded stacks      out/demo.folded    one line for each distinct stack
END
