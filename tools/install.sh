#!/usr/bin/env bash
# Installs what `make build` made: the program without debug information, that information beside it, manual pages and shell
# completions.
#   install.sh BUILT PREFIX
set -euo pipefail
built=$1 prefix=$2
program=$built/perf-agent pages=$built/pages

for made in "$program" "$pages/man/perf-agent.1"; do
    [ -e "$made" ] || { echo "error: $made is missing: run \`make build\` first" >&2; exit 1; }
done
command -v objcopy > /dev/null ||
    { echo "error: objcopy is missing: install binutils (Debian: apt-get install binutils)" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Debuggers look for the file that the link names in .debug beside the program.
objcopy --only-keep-debug "$program" "$scratch/perf-agent.debug"
objcopy --strip-all --add-gnu-debuglink="$scratch/perf-agent.debug" "$program" "$scratch/perf-agent"
install -D -m 755 "$scratch/perf-agent" "$prefix/bin/perf-agent"
install -D -m 644 "$scratch/perf-agent.debug" "$prefix/bin/.debug/perf-agent.debug"
for page in "$pages"/man/*.1; do
    install -D -m 644 "$page" "$prefix/share/man/man1/$(basename "$page")"
done
install -D -m 644 "$pages/completions/perf-agent.bash" "$prefix/share/bash-completion/completions/perf-agent"
install -D -m 644 "$pages/completions/_perf-agent" "$prefix/share/zsh/site-functions/_perf-agent"
install -D -m 644 "$pages/completions/perf-agent.fish" "$prefix/share/fish/vendor_completions.d/perf-agent.fish"
echo "installed $prefix/bin/perf-agent ($(stat -c %s "$prefix/bin/perf-agent") bytes)"
