# The libraries that weft is built with. The first three are required; without one of the others a part is left
# out, and the summary at the end of the configuration says so.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

set(WEFT_HAS_BENCHMARK 0)
if(NOT WEFT_PORTABLE)
  find_package(benchmark QUIET)
  set(WEFT_HAS_BENCHMARK ${benchmark_FOUND})
endif()

set(Boost_USE_STATIC_LIBS ${WEFT_PORTABLE})
find_package(Boost 1.74 QUIET COMPONENTS context)
set(WEFT_HAS_EMULATOR 0)
if(NOT WEFT_EMULATOR STREQUAL "OFF")
  if(Boost_CONTEXT_FOUND AND WEFT_CUDA_INCLUDE)
    set(WEFT_HAS_EMULATOR 1)
  elseif(WEFT_EMULATOR STREQUAL "ON")
    message(FATAL_ERROR "WEFT_EMULATOR=ON needs Boost.Context and the CUDA headers (cuda_bf16.h): run ./weft setup")
  endif()
endif()

# tvm-ffi, the Python package's binary interface, comes as a Python package: the headers and the library of the
# environment that will import the result. Asked at every configuration, because the environment may come later.
# Sanitized libraries can't be loaded into an ordinary Python.
set(WEFT_PYTHON "" CACHE FILEPATH "A Python with apache-tvm-ffi; empty: that of .weft/venv, else python3")
set(WEFT_HAS_BINDING 0)
if(NOT WEFT_BINDING STREQUAL "OFF" AND NOT WEFT_SANITIZE)
  # A wheel is built by the Python that scikit-build-core names.
  foreach(_python ${WEFT_PYTHON} ${Python_EXECUTABLE} "${CMAKE_SOURCE_DIR}/.weft/venv/bin/python" python3)
    execute_process(COMMAND "${_python}" -m tvm_ffi.config --includedir --dlpack-includedir
                    OUTPUT_VARIABLE _includes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND "${_python}" -m tvm_ffi.config --libfiles
                    OUTPUT_VARIABLE WEFT_TVM_FFI_LIBRARY OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REPLACE "\n" ";" WEFT_TVM_FFI_INCLUDES "${_includes}")
    if(EXISTS "${WEFT_TVM_FFI_LIBRARY}")
      set(WEFT_HAS_BINDING 1)
      break()
    endif()
  endforeach()
endif()
if(WEFT_BINDING STREQUAL "ON" AND NOT WEFT_HAS_BINDING)
  message(FATAL_ERROR "WEFT_BINDING=ON needs a Python with apache-tvm-ffi (WEFT_PYTHON) and no sanitizer")
endif()
