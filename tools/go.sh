#!/usr/bin/env bash
# Prints the folder of a Go that is recent enough for the tests.
# Debian 12's Go 1.19 is not: its tables of inlined calls and its pprof are of another form. There a later one is fetched,
# as the Go module that Go's own toolchain switch uses, checked by the checksum database, into the user's cache.
set -euo pipefail
oldest=go1.20
wanted=go1.24.6

go=$(command -v go) || { echo "go.sh: go is missing (package golang-go)" >&2; exit 1; }
have=$(GOTOOLCHAIN=local go env GOVERSION)
if [ "$(printf '%s\n' "$oldest" "$have" | sort -V | head -n 1)" = "$oldest" ]; then
    dirname "$go"
    exit 0
fi
case $(uname -m) in x86_64) arch=amd64 ;; *) arch=arm64 ;; esac
folder=${XDG_CACHE_HOME:-$HOME/.cache}/perf-agent-go/$wanted
if ! [ -x "$folder/bin/go" ]; then
    work=$(mktemp -d)
    trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
    export GOMODCACHE=$work GOFLAGS= GO111MODULE=on
    (cd "$work" && go mod download "golang.org/toolchain@v0.0.1-$wanted.linux-$arch") >&2
    mkdir -p "$(dirname "$folder")"
    rm -rf "$folder.new"
    cp -r "$work/golang.org/toolchain@v0.0.1-$wanted.linux-$arch" "$folder.new"
    chmod -R u+w "$folder.new"
    # Module archives carry no modes.
    chmod +x "$folder.new"/bin/* "$folder.new"/pkg/tool/*/*
    rm -rf "$folder"
    mv "$folder.new" "$folder"
fi
echo "$folder/bin"
