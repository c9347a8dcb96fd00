# The libraries that weft is built with. The first three are required; without one of the others a part is left
# out, and the summary at the end of the configuration says so.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

find_package(benchmark QUIET)
set(WEFT_HAS_BENCHMARK ${benchmark_FOUND})

# OpenBLAS by its own header and library: CMake's FindBLAS would take any BLAS, some without CBLAS.
find_path(WEFT_OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas x86_64-linux-gnu aarch64-linux-gnu)
find_library(WEFT_OPENBLAS_LIBRARY openblas)
set(WEFT_HAS_OPENBLAS 0)
if(WEFT_OPENBLAS_INCLUDE AND WEFT_OPENBLAS_LIBRARY)
  set(WEFT_HAS_OPENBLAS 1)
endif()

find_package(Boost 1.74 QUIET COMPONENTS context)
set(WEFT_HAS_EMULATOR 0)
if(NOT WEFT_EMULATOR STREQUAL "OFF")
  if(Boost_CONTEXT_FOUND AND WEFT_CUDA_INCLUDE)
    set(WEFT_HAS_EMULATOR 1)
  elseif(WEFT_EMULATOR STREQUAL "ON")
    message(FATAL_ERROR "WEFT_EMULATOR=ON needs Boost.Context and the CUDA headers (cuda_bf16.h): run ./weft setup")
  endif()
endif()
