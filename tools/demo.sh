#!/usr/bin/env bash
# Builds perf-agent, and profiles a real program with it.
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

# A program in Python, run by the interpreter as Debian ships it: stripped, without frame pointers.
/usr/bin/python3 tools/demo_workload.py &
program=$!
trap 'kill $program 2> /dev/null || true' EXIT

mkdir -p out
"$agent" --profile --pid "$program" --duration 5s --sample-rate 999 --kernel-stacks \
    --profile-output out/demo.pb.gz --flamegraph-output out/demo.svg --folded-output out/demo.folded
