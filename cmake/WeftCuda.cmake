# Finds the CUDA headers (which the emulator needs too) and, unless sanitizing, nvcc.
# Order: CUDACXX and CUDA_PATH, nvcc on the PATH, the toolkit that ./weft setup made, the usual folder.

find_program(WEFT_NVCC nvcc
             HINTS "$ENV{CUDACXX}" ENV CUDA_PATH "${CMAKE_SOURCE_DIR}/.weft/cuda" /usr/local/cuda
             PATH_SUFFIXES bin)
if(WEFT_NVCC)
  # nvcc may be a script that starts the real one: ask it where its toolkit is.
  execute_process(COMMAND "${WEFT_NVCC}" --dryrun -c weft.cu
                  OUTPUT_VARIABLE _nvcc_says ERROR_VARIABLE _nvcc_says)
  if(_nvcc_says MATCHES "TOP=([^\n]+)")
    get_filename_component(_toolkit "${CMAKE_MATCH_1}" ABSOLUTE)
  endif()
endif()
find_path(WEFT_CUDA_INCLUDE cuda_bf16.h
          HINTS "${_toolkit}" ENV CUDA_PATH "${CMAKE_SOURCE_DIR}/.weft/cuda" /usr/local/cuda
          PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include)
# cuBLASLt is loaded when first used, so only its header is looked for.
find_path(WEFT_CUBLASLT_INCLUDE cublasLt.h
          HINTS "${WEFT_CUDA_INCLUDE}" "${CMAKE_SOURCE_DIR}/.weft/cublas/include" PATH_SUFFIXES include)

set(WEFT_HAS_CUDA 0)
if(WEFT_CUDA STREQUAL "ON" OR (WEFT_CUDA STREQUAL "AUTO" AND WEFT_NVCC AND NOT WEFT_SANITIZE))
  if(NOT WEFT_NVCC)
    message(FATAL_ERROR "WEFT_CUDA=ON, but no nvcc was found: put it on the PATH, set CUDACXX, or run ./weft setup")
  endif()
  set(CMAKE_CUDA_COMPILER "${WEFT_NVCC}")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  set(_architectures ${WEFT_CUDA_ARCHITECTURES})
  if(_architectures STREQUAL "all")
    set(_architectures 80 86 89 90a 100 120)
  endif()
  list(TRANSFORM _architectures APPEND -real)
  set(CMAKE_CUDA_ARCHITECTURES ${_architectures})
  set(CMAKE_CUDA_FLAGS_RELEASE "-O2" CACHE STRING "")
  enable_language(CUDA)
  # -isystem PATH: ccache makes it relative to the checkout, which it cannot do in the usual spelling, -isystem=PATH.
  set(CMAKE_INCLUDE_SYSTEM_FLAG_CUDA "-isystem ")
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # CMake 3.25 is older than nvcc 13 and does not know the flag.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(WEFT_HAS_CUDA 1)
endif()

# Without nvcc too: then tests alone use it, with a library of their own in cuBLASLt's place.
set(WEFT_HAS_CUBLASLT 0)
if(WEFT_CUDA_INCLUDE AND WEFT_CUBLASLT_INCLUDE)
  set(WEFT_HAS_CUBLASLT 1)
endif()
