#!/usr/bin/env bash
# Packages the event library with the crates of this workspace that it needs, as crates.io would get them, and builds each from its package.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=()
for crate in events perf-abi probes elf profile symbols dwarf unwind sys process tracepoints; do packages+=(-p "perf-agent-$crate"); done
# Cargo takes what it has unpacked and built of an earlier package of the same version for this one.
target=${CARGO_TARGET_DIR:-$PWD/target}/packages
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/perf-agent-* "$target"
exec cargo package --target-dir "$target" --locked "$@" "${packages[@]}"
