#!/usr/bin/env bash
# Runs README's first two commands in an empty Debian 12. The root has git, curl, this machine's stable Rust, and a clone of the last commit.
#   new_machine.sh [--container | --user] [FOLDER]
# The root is made in FOLDER, unless it is there already, and stays there; without FOLDER it is temporary. With --container or --user,
# only the tests run: as root without BPF, as in most containers (tools/confined.py), or as an ordinary user, after root has installed
# the packages. Package sources, certificates and the settings of cargo, Go and npm are this machine's. Prints what the commands
# print, and the packages that they installed. Needs root, mmdebstrap and 12 GB.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
die() { echo "new_machine.sh: $*" >&2; exit 1; }

# Runs the lines of a file as commands, until one fails.
run_commands() { # FILE
    local command begun status=0
    while read -r command; do
        echo "== $command"
        begun=$SECONDS
        bash -c "$command" < /dev/null || status=1
        echo "== ended with $status after $((SECONDS - begun)) s"
        [ $status = 0 ] || return $status
    done < "$1"
}

# The second half runs with the new root in a mount namespace of its own.
if [ "${1:-}" = --inside ]; then
    root=$2 mode=$3
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount --rbind /dev "$root/dev"
    if [ "$mode" = container ]; then
        mount -t proc proc "$root/proc"
        mount -t sysfs -o ro sysfs "$root/sys"
        mount -t cgroup2 -o ro cgroup2 "$root/sys/fs/cgroup" || true
    else
        mount --rbind /proc "$root/proc"
        mount --rbind /sys "$root/sys"
        [ -d "$root/sys/kernel/tracing/events" ] || mount -t tracefs none "$root/sys/kernel/tracing" || true
    fi
    cd "$root"
    pivot_root . .
    umount -l .
    cd /root/perf-agent
    hash -r
    dpkg-query -W -f '${Package}\n' | sort > /root/packages-before
    status=0
    run_commands "/root/commands-$mode" || status=1
    echo "== packages that the commands installed"
    dpkg-query -W -f '${Package}\n' | sort | comm -13 /root/packages-before - | tr '\n' ' ' | fold -s -w 150
    echo
    exit $status
fi

mode=root
case ${1:-} in
    --container | --user) mode=${1#--}; shift ;;
    -*) die "unknown option $1" ;;
esac
[ "$(id -u)" = 0 ] || die "needs root: it makes a root folder with devices and mounts"
command -v mmdebstrap > /dev/null || die "mmdebstrap is missing (package mmdebstrap)"
cargo=${CARGO_HOME:-$HOME/.cargo}
rustup=${RUSTUP_HOME:-$HOME/.rustup}
[ -x "$cargo/bin/rustup" ] || die "rustup is missing, see https://rustup.rs"

if [ $# -gt 0 ]; then
    mkdir -p "$1"
    root=$(cd "$1" && pwd)
else
    root=$(mktemp -d /var/tmp/perf-agent-new-machine.XXXXXX)
    trap 'rm -rf --one-file-system "$root"' EXIT
fi

# Certificates and settings of this machine, as far as it has them.
copy() { # FILE…
    local file
    for file in "$@"; do
        [ ! -e "$file" ] || { mkdir -p "$root/$(dirname "${file/#$HOME//root}")" && cp -aL "$file" "$root/${file/#$HOME//root}"; }
    done
}

make_root() {
    # The package sources of this machine.
    local sources settings=() file stable
    sources=$(apt-get indextargets --format 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Created-By: Packages' | awk '$4 ~ /^bookworm(-updates|-security)?$/ && $5 == "main"' | sort -u)
    [ -n "$sources" ] || die "this machine has no package sources of Debian 12 (bookworm); apt-get update reads them"
    while read -r file; do settings+=(--aptopt="$file"); done < <(grep -ls '^ *Acquire::' /etc/apt/apt.conf.d/* || true)
    echo "making a root with Debian 12"
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,git,curl "${settings[@]}" bookworm "$root" - <<< "$sources"
    cp /etc/resolv.conf "$root/etc/" 2> /dev/null || true
    copy /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates "$HOME/.npmrc" "$HOME/.config/go/env" /etc/pip.conf
    chroot "$root" update-ca-certificates > /dev/null 2>&1 || true
    copy /etc/ssl/certs/ca-certificates.crt

    # The stable toolchain, as rustup lays it out.
    stable=$(rustup show active-toolchain | cut -d ' ' -f 1)
    mkdir -p "$root/root/.cargo" "$root/root/.rustup/toolchains"
    cp -a "$cargo/bin" "$root/root/.cargo/"
    for file in config config.toml env; do [ ! -e "$cargo/$file" ] || cp "$cargo/$file" "$root/root/.cargo/"; done
    cp -a "$(readlink -f "$rustup/toolchains/$stable")" "$root/root/.rustup/toolchains/$stable"
    printf 'version = "12"\ndefault_toolchain = "%s"\nprofile = "minimal"\n' "$stable" > "$root/root/.rustup/settings.toml"
}

# A clone of the last commit. An older one keeps what it has built.
clone() { # FOLDER
    if [ -d "$1" ]; then
        git -C "$1" fetch --quiet "file://$here" HEAD
        git -C "$1" reset --quiet --hard FETCH_HEAD
    else
        git clone --quiet --no-hardlinks "file://$here" "$1"
    fi
}

[ -e "$root/root/.rustup" ] || make_root
git -C "$here" diff --quiet HEAD || echo "new_machine.sh: changes that are not committed are not tested" >&2
clone "$root/root/perf-agent"
commands=$root/root/commands-$mode
case $mode in
    root)
        # The first block of README has the two commands.
        awk '/^    / { seen = 1; sub(/^    /, ""); sub(/ +#.*/, ""); print; next } seen { exit }' "$here/README.md" > "$commands"
        [ "$(wc -l < "$commands")" = 2 ] || die "README.md does not begin with a block of two commands"
        ;;
    container)
        printf '%s\n' "tools/packages.sh build test" "tools/confined.py make test" > "$commands"
        ;;
    user)
        chroot "$root" sh -c 'id tester > /dev/null 2>&1 || useradd --create-home tester'
        clone "$root/home/tester/perf-agent"
        # The compiler and the fetched crates are those of root.
        chmod a+rx "$root/root"
        mkdir -p "$root/home/tester/.cargo"
        for file in config config.toml registry; do
            [ ! -e "$root/root/.cargo/$file" ] || cp -aT "$root/root/.cargo/$file" "$root/home/tester/.cargo/$file"
        done
        chroot "$root" chown -R tester: /home/tester
        cat > "$commands" << 'END'
tools/packages.sh build test
cd /home/tester/perf-agent && setpriv --reuid tester --regid tester --init-groups env HOME=/home/tester RUSTUP_HOME=/root/.rustup make test
END
        ;;
esac

namespaces=(--mount)
[ "$mode" != container ] || namespaces+=(--pid --fork --kill-child)
keep=()
for name in SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO; do
    [ -z "${!name:-}" ] || keep+=("$name=${!name}")
done
env -i HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${keep[@]}" \
    unshare "${namespaces[@]}" -- bash "$here/tools/new_machine.sh" --inside "$root" "$mode"
