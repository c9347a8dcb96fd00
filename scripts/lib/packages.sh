# System packages: what the build needs, found by looking for the thing itself, so that a machine which has it from
# elsewhere needs no package manager.

# what | Debian package | needed for | how it is found
# A kind: command (one of several), header (and its library file, where it has one), library (loaded at run time),
# python.
requirements() {
    cat <<'TABLE'
g++|g++|build|command g++
cmake|cmake|build|command cmake
ninja|ninja-build|build|command ninja
fmt|libfmt-dev|build|header fmt/format.h libfmt
CLI11|libcli11-dev|build|header CLI/CLI.hpp
nlohmann-json|nlohmann-json3-dev|build|header nlohmann/json.hpp
ccache|ccache|fast|command ccache
Boost.Context|libboost-context-dev|emulator|header boost/context/fiber.hpp libboost_context
OpenBLAS|libopenblas0-pthread|fast|library libopenblas.so.0
Google Benchmark|libbenchmark-dev|bench|header benchmark/benchmark.h libbenchmark
Python with venv|python3 python3-venv ca-certificates|python|python
GoogleTest|libgtest-dev|tests|header gtest/gtest.h libgtest
GoogleMock|libgmock-dev|tests|header gmock/gmock.h libgmock
a browser (the tests look at the report's page)|chromium|tests|command chromium chromium-browser google-chrome chrome
TABLE
}

has_command() { command -v "$1" >/dev/null; }

has_one_of() {
    local name
    for name in "$@"; do
        if has_command "$name"; then return 0; fi
    done
    return 1
}

# The compiler itself says whether it finds a header and a library, wherever they are installed.
has_header() {
    has_command g++ || return 1
    echo "#if !__has_include(<$1>)
#error missing
#endif" | g++ -E -x c++ - >/dev/null 2>&1 || return 1
    [ $# -eq 1 ] && return 0
    local ending
    for ending in so a; do
        case $(g++ -print-file-name="$2.$ending") in */*) return 0 ;; esac
    done
    return 1
}

has_library() {
    has_command g++ || return 1
    case $(g++ -print-file-name="$1") in */*) return 0 ;; esac
    return 1
}

has_python() { python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }

found() {
    case $1 in
        command) has_one_of "${@:2}" ;;
        header) has_header "${@:2}" ;;
        library) has_library "$2" ;;
        python) has_python ;;
    esac
}

# Whether this run must have it: Python is needed for tests and to fetch the CUDA compiler.
is_needed() {
    case $1 in
        build) return 0 ;;
        tests) [ "$2" = tests ] ;;
        python) [ "$2" = tests ] || ! nvcc_path >/dev/null ;;
        *) return 1 ;;
    esac
}

# Sets missing_packages, and missing_needed to the names of those that this run cannot do without.
look_for_missing() {
    missing_packages=() missing_needed=()
    local name packages purpose how
    while IFS='|' read -r name packages purpose how; do
        # shellcheck disable=SC2086  # how is a kind and its arguments
        if found $how; then continue; fi
        if [ "$purpose" = tests ] && [ "$1" != tests ]; then continue; fi
        if [ "$purpose" = bench ] && [ "$1" = demo ]; then continue; fi
        # shellcheck disable=SC2206  # several packages for one thing
        missing_packages+=($packages)
        if is_needed "$purpose" "$1"; then missing_needed+=("$name"); fi
    done < <(requirements)
}

# Prints how to become root ("" for root itself); fails where there is no way.
root_prefix() {
    if [ "$(id -u)" -eq 0 ]; then return 0; fi
    has_command sudo || return 1
    if sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; then echo sudo; else return 1; fi
}

apt_install() {
    local prefix=$1
    shift
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # the prefix is empty or sudo
    $prefix apt-get update
    # shellcheck disable=SC2086
    $prefix apt-get install -y --no-install-recommends "$@"
}

try_apt() {
    has_command apt-get || return 1
    local prefix
    prefix=$(root_prefix) || return 1
    step "system packages (${#missing_packages[@]} missing)" packages apt_install "$prefix" "${missing_packages[@]}"
}

ensure_packages() {
    local purpose=${1:-build}
    look_for_missing "$purpose"
    if [ ${#missing_packages[@]} -eq 0 ]; then return 0; fi
    # What apt could not bring before is not asked for again, unless the run cannot do without it.
    if [ ${#missing_needed[@]} -eq 0 ] && stamped packages "${missing_packages[*]}"; then return 0; fi
    local wanted="${missing_packages[*]}"
    try_apt || true
    look_for_missing "$purpose"
    stamp packages "${missing_packages[*]:-}"
    if [ ${#missing_packages[@]} -eq 0 ]; then return 0; fi
    say "these packages could not be installed here: ${missing_packages[*]}"
    say "with the rights to do so, run:  apt-get install -y --no-install-recommends $wanted"
    if [ ${#missing_needed[@]} -ne 0 ]; then
        die "and start again: weft cannot be built without ${missing_needed[*]}"
    fi
    say "going on without them: some parts will be left out"
}
