# CUDA's compiler and headers: the machine's own, or else those that NVIDIA publishes as Python packages.

# Prints the nvcc to use; fails where there is none.
nvcc_path() {
    local candidate
    for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_PATH:+$CUDA_PATH/bin/nvcc}" \
        /usr/local/cuda/bin/nvcc "$home/cuda/bin/nvcc"; do
        if [ -n "$candidate" ] && [ -x "$candidate" ] && nvcc_is_new_enough "$candidate"; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

# The fp4 conversions came with 12.8.
nvcc_is_new_enough() {
    local version
    version=$("$1" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p') || return 1
    # shellcheck disable=SC2086  # two numbers
    set -- $version
    [ $# -eq 2 ] && [ $(($1 * 100 + $2)) -ge 1208 ]
}

make_venv() {
    [ -x "$home/venv/bin/pip" ] || python3 -m venv "$home/venv"
}

# pip, without the delays of its retries on a machine that reaches no registry.
pip() { "$home/venv/bin/pip" --disable-pip-version-check --retries 1 "$@"; }

fetch_cuda() {
    rm -rf "$home/cuda-packages" "$home/cuda"
    # The packages lay the toolkit out as nvcc expects, but for the name of its library folder.
    make_venv &&
        pip install --no-deps --target "$home/cuda-packages" -r "$root/scripts/cuda-packages.txt" &&
        ln -sfn lib "$home/cuda-packages/nvidia/cu13/lib64" &&
        ln -sfn cuda-packages/nvidia/cu13 "$home/cuda" &&
        "$home/cuda/bin/nvcc" --version
}

# Whether kernels could run here.
has_gpu() { [ -n "$(nvidia-smi -L 2>/dev/null)" ]; }

# What .weft/cuda is made of; the list of the compiler's packages names that of the headers'.
cuda_packages() { cat "$root/scripts/cuda-headers.txt" "$root/scripts/cuda-packages.txt"; }

fetch_cuda_headers() {
    rm -rf "$home/cuda-headers"
    make_venv &&
        pip install --no-deps --target "$home/cuda-headers" -r "$root/scripts/cuda-headers.txt" &&
        [ -f "$home/cuda-headers/nvidia/cu13/include/cuda_bf16.h" ]
}

# The headers alone, without a compiler.
ensure_cuda_headers() {
    local key
    key=$(cat "$root/scripts/cuda-headers.txt")
    if nvcc_path >/dev/null || stamped cuda-headers "$key"; then return 0; fi
    if step "CUDA headers (10 MB)" cuda-headers fetch_cuda_headers; then
        stamp cuda-headers "$key"
    else
        say "going on without the CUDA headers: the emulator is left out, so nothing but the CPU is checked"
    fi
}

fetch_cublas_headers() {
    rm -rf "$home/cublas" "$home/download"
    make_venv &&
        pip download --no-deps --only-binary=:all: -d "$home/download" -r "$root/scripts/cublas-package.txt" &&
        unpack_headers "$home/download" "$home/cublas/include" &&
        rm -rf "$home/download"
}

# unpack_headers FOLDER TARGET: the headers alone of the wheel in FOLDER.
unpack_headers() {
    "$home/venv/bin/python" - "$@" <<'PYTHON'
import pathlib, sys, zipfile

(wheel,) = pathlib.Path(sys.argv[1]).glob("*.whl")
target = pathlib.Path(sys.argv[2])
target.mkdir(parents=True)
with zipfile.ZipFile(wheel) as archive:
    for name in map(pathlib.PurePath, archive.namelist()):
        if name.parent.name == "include" and name.suffix == ".h":
            (target / name.name).write_bytes(archive.read(str(name)))
PYTHON
}

# Prints the folder of cublasLt.h, where the toolkit or the machine's own Python packages have it.
cublas_headers() {
    local folder
    for folder in "$(dirname "$(readlink -f "$1")")/../include" "$(toolkit_of "$1")/include" "$home/cublas/include" \
        "$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "include"))' \
            2>/dev/null || true)"; do
        if [ -f "$folder/cublasLt.h" ]; then
            echo "$folder"
            return 0
        fi
    done
    return 1
}

# nvcc may be a script that starts the real one: ask it where its toolkit is.
toolkit_of() { "$1" --dryrun -c weft.cu 2>&1 | sed -n 's/.*TOP=//p' | head -n 1; }

ensure_cuda() {
    local key
    key=$(cuda_packages)
    if ! nvcc_path >/dev/null || { [ "$(nvcc_path)" = "$home/cuda/bin/nvcc" ] && ! stamped cuda "$key"; }; then
        if ! step "CUDA compiler and headers (100 MB)" cuda fetch_cuda; then
            say "going on without CUDA: neither the GPU kernels nor the emulator are built"
            return 0
        fi
        stamp cuda "$key"
    fi
    if cublas_headers "$(nvcc_path)" >/dev/null; then return 0; fi
    key=$(cat "$root/scripts/cublas-package.txt")
    if stamped cublas-unreachable "$key" || ! has_python; then return 0; fi
    if ! step "cuBLAS headers (400 MB, of which the headers are kept)" cublas fetch_cublas_headers; then
        stamp cublas-unreachable "$key"
        say "going on without cuBLASLt: weft's own matrix kernels are used"
    fi
}
