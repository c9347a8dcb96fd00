# What can be chosen at configure time, and the compiler flags that every target shares.

set(WEFT_CUDA AUTO CACHE STRING "Compile the kernels with nvcc: AUTO (where one is found), ON or OFF")
set(WEFT_CUDA_ARCHITECTURES 90a CACHE STRING "GPU architectures, such as 90a or '80;90a', or all")
set(WEFT_EMULATOR AUTO CACHE STRING
    "Compile the kernels for the CPU emulator: AUTO (where the CUDA headers and Boost.Context are found), ON or OFF")
set(WEFT_BINDING AUTO CACHE STRING
    "Build the Python package's library: AUTO (where a Python with apache-tvm-ffi is found), ON or OFF")
set(WEFT_OPS all CACHE STRING "The ops to build: all, pipelines (those that pipelines/ calls), or names: 'gemm;rope'")
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers: empty, address (with undefined behaviour) or thread")
option(WEFT_TESTS "Build the tests" ON)
option(WEFT_LADDER "Build the ladder, kernels to be read, into the tool (in builds with all ops)" ON)
option(WEFT_PORTABLE "Bring along what a bare machine lacks (fmt, Boost.Context), as a wheel must" OFF)
option(WEFT_PTXAS_REPORT "Print registers and spills of every kernel" OFF)
set_property(CACHE WEFT_CUDA WEFT_EMULATOR WEFT_BINDING PROPERTY STRINGS AUTO ON OFF)
set_property(CACHE WEFT_SANITIZE PROPERTY STRINGS "" address thread)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# The build folder can be moved or copied to another machine as a whole.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")

find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE)
  # Relative to the checkout, so that one checkout's objects serve another's. The sloppiness is what ccache asks for
  # before it keeps files that use a precompiled header.
  set(WEFT_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros "${WEFT_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${WEFT_LAUNCHER})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${WEFT_LAUNCHER})
endif()

# -O2 without link-time tricks: what is fast here runs on the GPU, and the compile time is everybody's.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
# g++ 12 takes std::sort of a short array to reach beyond it, and says so where the header is precompiled.
set(WEFT_WARNINGS -Wall -Wextra -Werror -Wno-array-bounds)
set(WEFT_SANITIZE_FLAGS "")
set(WEFT_LIGHT_OPTIONS "")  # for what does little work itself
set(WEFT_CHECKS_IN_PLACE "")
if(WEFT_SANITIZE STREQUAL "address")
  # Without the checks of what AddressSanitizer sees at the access itself: they are a third of an emulated kernel's
  # compilation.
  set(WEFT_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize=null,object-size,pointer-overflow
      -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Checks are calls: a file is compiled in three fifths to nine tenths of the time, and runs slower. References, which
    # run longest, have theirs in place.
    list(APPEND WEFT_SANITIZE_FLAGS "SHELL:--param asan-instrumentation-with-call-threshold=0")
    set(WEFT_CHECKS_IN_PLACE "SHELL:--param asan-instrumentation-with-call-threshold=7000")
  endif()
elseif(WEFT_SANITIZE STREQUAL "thread")
  set(WEFT_SANITIZE_FLAGS -fsanitize=thread)
elseif(NOT WEFT_SANITIZE STREQUAL "")
  message(FATAL_ERROR "WEFT_SANITIZE is '${WEFT_SANITIZE}': expected address, thread or nothing")
endif()
if(WEFT_SANITIZE_FLAGS)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1 -fno-omit-frame-pointer")
  # Parsers and tests are long in templates: optimised, they take twice as long to compile.
  set(WEFT_LIGHT_OPTIONS -O0)
  # g++ 12 misjudges instrumented code with these two.
  list(APPEND WEFT_WARNINGS -Wno-maybe-uninitialized -Wno-stringop-overflow)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${WEFT_SANITIZE_FLAGS}>")
  add_link_options(${WEFT_SANITIZE_FLAGS})
endif()
