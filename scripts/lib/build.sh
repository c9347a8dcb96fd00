# Configure and build one of the presets; the Python environment of the tests.

# architectures [alone]: what to compile for: Hopper's architecture, and those of the GPUs that are here. `alone`: only
# the latter, where there are any.
architectures() {
    local list="" capability
    if [ "${1:-}" != alone ]; then list=90a; fi
    for capability in $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u); do
        capability=${capability/./}
        capability=${capability/#90/90a}
        case ";$list;" in
            *";$capability;"*) ;;
            *) list+="${list:+;}$capability" ;;
        esac
    done
    echo "${list:-90a}"
}

configure() {
    local preset=$1 options=() nvcc headers
    if nvcc=$(nvcc_path); then
        options+=("-DWEFT_NVCC=$nvcc")
        if headers=$(cublas_headers "$nvcc"); then options+=("-DWEFT_CUBLASLT_INCLUDE=$headers"); fi
    elif [ -d "$home/cuda-headers" ]; then
        options+=("-DWEFT_CUDA_INCLUDE=$home/cuda-headers/nvidia/cu13/include")
    fi
    if [ "$preset" = release ]; then
        options+=("-DWEFT_CUDA_ARCHITECTURES=$(architectures)")
    elif [ "$preset" = demo ] && has_gpu; then
        options+=("-DWEFT_CUDA_ARCHITECTURES=$(architectures alone)")
    elif [ "$preset" = demo ]; then
        options+=(-DWEFT_CUDA=OFF)
    fi
    # tvm-ffi comes with the Python environment, maybe after the first configuration.
    local key="$root ${options[*]:-} $(stat -Lc %Y /usr/include /usr/local/include \
        "$root"/.weft/venv/lib/python3*/site-packages/tvm_ffi 2>/dev/null | tr '\n' ' ')"
    if [ -f "$root/build/$preset/build.ninja" ] && stamped "configure-$preset" "$key"; then return 0; fi
    # A build folder that was copied from elsewhere cannot be configured again in place.
    grep -qsF "HOME_DIRECTORY:INTERNAL=$root" "$root/build/$preset/CMakeCache.txt" || rm -rf "$root/build/$preset"
    step "configuration ($preset)" "configure-$preset" \
        cmake -S "$root" --preset "$preset" ${options[@]+"${options[@]}"} || return
    stamp "configure-$preset" "$key"
}

# build PRESET TARGET
build() {
    configure "$1" || return
    step "build ($1)" "build-$1" ninja -C "$root/build/$1" "$2"
}

install_python_packages() {
    make_venv && pip install -r "$root/tests/requirements.txt"
}

# Sets python: the environment in .weft/, or a machine's own Python that has what the tests import.
ensure_python() {
    local key
    python=$home/venv/bin/python
    key=$(cat "$root/tests/requirements.txt")
    if stamped python "$key" && [ -x "$python" ]; then return 0; fi
    if step "Python environment of the tests" python install_python_packages; then
        stamp python "$key"
        return 0
    fi
    if python3 -c 'import numpy, pytest, safetensors, torch, transformers' 2>/dev/null; then
        say "using this machine's own Python packages instead, of other versions than the pinned ones"
        python=python3
        return 0
    fi
    die "the tests need the packages of tests/requirements.txt"
}

format_sources() {
    cd "$root"
    "$home/venv/bin/python" scripts/run_tests.py --sources | xargs "$home/venv/bin/clang-format" -i
    "$home/venv/bin/ruff" format --quiet .
}
