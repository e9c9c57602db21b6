#!/usr/bin/env bash
# Prints the interpreters of Python for the tests that neither pyenv nor the system has, with colons between their paths.
# They come from packages of other releases of Debian, unpacked into the user's cache; nothing is installed. Each version is a tree in which its
# interpreters find their standard library, headers and libraries: VERSION/static/pythonVERSION is Debian's program,
# VERSION/shared/pythonVERSION a program of three lines over Debian's libpython. What cannot be had is reported with its reason.
# No release from Debian 11 on has 3.8, 3.10 or 3.12: only pyenv brings these.
# Cache: $XDG_CACHE_HOME/perf-agent-pythons, else ~/.cache/perf-agent-pythons.
set -euo pipefail

# Version, suite, programs, and the libraries without which they do not run here. With libc6, a program runs by that C library's own
# loader: it was built for a newer one than the oldest system on which the tests run.
versions=(
    "2.7 bullseye shared libffi7"
    "3.9 bullseye shared libffi7"
    "3.11 bookworm static"
    "3.13 trixie static,shared libc6 libexpat1 libffi8 zlib1g"
    "3.14 forky static libc6 libexpat1 libffi8 libgcc-s1 libzstd1 zlib1g"
    "3.15 forky static libc6 libexpat1 libffi8 libgcc-s1 libzstd1 zlib1g"
)
# A new number when trees are made in another way.
form=1

cache=${XDG_CACHE_HOME:-$HOME/.cache}/perf-agent-pythons/$form
pyenv=${PYENV_ROOT:-$HOME/.pyenv}/versions

# Where programs find the libraries of their tree.
near="\$ORIGIN/../lib"

die() { echo "pythons.sh: $*" >&2; exit 1; }

# Whether the tests find this version without help.
is_here() { # VERSION
    [ -x "/usr/bin/python$1" ] || compgen -G "$pyenv/$1.*/bin/python$1" > /dev/null
}

# Makes the program over a tree's libpython.
link_shared() { # TREE VERSION
    local tree=$1 version=$2 main=Py_BytesMain
    [ "$version" != 2.7 ] || main=Py_Main
    printf 'int %s(int, char **);\nint main(int count, char **words) {\n    return %s(count, words);\n}\n' $main $main > "$tree/main.c"
    # The library asks its own C library for functions that this system's may lack.
    gcc -O2 -g -o "$tree/shared/python$version" "$tree/main.c" "$tree/lib/libpython$version.so.1.0" \
        -Wl,--allow-shlib-undefined -Wl,--disable-new-dtags -Wl,-rpath,"$near"
}

# Makes the tree of a version, or gives the reason why it cannot.
make_tree() { # VERSION SUITE PROGRAMS LIBRARY…
    local version=$1 suite=$2 programs=${3//,/ } tree=$cache/$1.new files=$cache/$1.files program loader path packages
    shift 3
    packages=("libpython$version-minimal" "libpython$version-stdlib" "libpython$version-dev" "$@")
    for program in $programs; do
        case $program in static) packages+=("python$version-minimal") ;; shared) packages+=("libpython$version") ;; esac
    done
    unpack "$files" "${packages[@]/%//$suite}" || { echo "its packages in Debian's suite $suite cannot be fetched"; return 1; }
    rm -rf "$tree"
    mkdir -p "$tree/lib" "$tree/include"
    mv "$files/usr/lib/python$version" "$tree/lib/"
    # For builds that contain an interpreter.
    rm -rf "$tree/lib/python$version"/config-*
    mv "$files/usr/include/python$version" "$tree/include/"
    # The header of this name refers to that of the architecture by its place in the system.
    cp "$files/usr/include"/*-linux-gnu/"python$version/pyconfig.h" "$tree/include/python$version/"
    find "$files/lib" "$files/usr/lib" -path '*-linux-gnu/*' ! -path '*-linux-gnu/*/*' -name '*.so*' -exec cp -a {} "$tree/lib/" \; 2> /dev/null
    # Into the system's own folders.
    find "$tree" -xtype l -delete
    for program in $programs; do
        path=$tree/$program/python$version
        mkdir "$tree/$program"
        case $program in
        static) cp "$files/usr/bin/python$version" "$path" ;;
        shared) link_shared "$tree" "$version" || { echo "its program cannot be linked"; return 1; } ;;
        esac
        if [[ " $* " = *" libc6 "* ]]; then
            loader=$(basename "$(patchelf --print-interpreter "$path")") &&
                patchelf --set-interpreter "$cache/$version/lib/$loader" --force-rpath --set-rpath "$near" "$path" ||
                { echo "patchelf cannot change its loader (package patchelf)"; return 1; }
        fi
    done
    rm -rf "$files" "$cache/$version"
    # The path of the loader is absolute.
    mv "$tree" "$cache/$version"
    for program in $programs; do
        path=$cache/$version/$program/python$version
        # This also compiles what most tests import.
        "$path" -c 'import ctypes, json, threading, signal; assert __import__("sys").executable' ||
            { echo "$path does not run"; rm -rf "${cache:?}/$version"; return 1; }
    done
    touch "$cache/$version/complete"
}

found=()
for line in "${versions[@]}"; do
    read -r version suite programs libraries <<< "$line"
    ! is_here "$version" || continue
    if ! [ -e "$cache/$version/complete" ]; then
        if [ -z "${lists_are_read:-}" ]; then
            mkdir -p "$cache"
            exec 9> "$cache/lock"
            flock 9
            apt=$cache/apt
            arch=$(dpkg --print-architecture)
            suites="bullseye bookworm trixie forky"
            . "$(dirname "$0")/debian.sh"
            read_lists
            lists_are_read=yes
        fi
        # shellcheck disable=SC2086 # words of their own
        [ -e "$cache/$version/complete" ] || reason=$(make_tree "$version" "$suite" "$programs" $libraries) ||
            { echo "pythons.sh: no Python $version: $reason" >&2; continue; }
    fi
    for program in ${programs//,/ }; do found+=("$cache/$version/$program/python$version"); done
done
(IFS=:; echo "${found[*]}")
