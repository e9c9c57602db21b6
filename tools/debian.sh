# Sourced by tests/vm/kernel.sh and tools/pythons.sh: unpacks packages of any release of Debian, without installing anything.
# Packages come from the mirrors of the system's own package sources, by package lists in `apt`.
# The script sets before: `apt`, a folder of its own; `arch`, an architecture of Debian; `suites`, the suites to read; `die MESSAGE`.

apt_options=(
    -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State=$apt/state" -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status"
    -o "Dir::Cache=$apt/cache" -o "APT::Architecture=$arch" -o "APT::Architectures=$arch"
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
)

# The address of the first source of this system whose suite matches a pattern.
mirror() {
    apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v suite="$1" '$2 == "main" && $1 ~ suite && !found { found = $3 } END { print found }'
}

read_lists() {
    local main security suite of wanted keys=/usr/share/keyrings/debian-archive-keyring.gpg
    main=$(mirror '^[a-z]+$')
    security=$(mirror '-security$')
    [ -n "$main" ] || die "no Debian mirror among this system's package sources"
    wanted=$(for suite in $suites; do
        case $suite in *-security) of=$security ;; *) of=$main ;; esac
        [ -z "$of" ] || echo "deb [signed-by=$keys] $of $suite main"
    done)
    [ -z "$(find "$apt/updated" -mtime -7 2> /dev/null)" ] || [ "$(cat "$apt/sources.list")" != "$wanted" ] || return 0
    mkdir -p "$apt"/state "$apt"/lists/partial "$apt"/cache/archives/partial
    : > "$apt/status"
    echo "$wanted" > "$apt/sources.list"
    # A suite that the mirror no longer has must not stop the others.
    apt-get "${apt_options[@]}" -qq update > "$apt/update.log" 2>&1 || true
    compgen -G "$apt/lists/*Packages*" > /dev/null || die "cannot read package lists: $(tail -3 "$apt/update.log")"
    touch "$apt/updated"
}

# Replaces a folder by the files of packages: NAME, NAME=VERSION or NAME/SUITE.
unpack() { # FOLDER PACKAGE…
    local folder=$1 work package
    shift
    work=$(mktemp -d "$apt/unpack.XXXXXX")
    if (cd "$work" && apt-get "${apt_options[@]}" -qq download "$@" > log 2>&1); then
        for package in "$work"/*.deb; do dpkg -x "$package" "$work/files"; done
        rm -rf "$folder"
        mv "$work/files" "$folder"
        rm -rf "$work"
    else
        rm -rf "$work"
        return 1
    fi
}
