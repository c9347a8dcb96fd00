# One line on each part that may be left out, so that nobody has to guess what a build holds.

function(weft_say what has why)
  if(has)
    message(STATUS "  ${what}: yes")
  else()
    message(STATUS "  ${what}: no (${why})")
  endif()
endfunction()

message(STATUS "weft ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, sanitizers: '${WEFT_SANITIZE}'")
weft_say("kernels by nvcc for ${WEFT_CUDA_ARCHITECTURES}" ${WEFT_HAS_CUDA} "switched off, sanitizing, or no nvcc")
weft_say("cuBLASLt" ${WEFT_HAS_CUBLASLT} "no CUDA headers or no cublasLt.h")
weft_say("emulator" ${WEFT_HAS_EMULATOR} "switched off, or no Boost.Context or CUDA headers")
weft_say("ladder" ${WEFT_HAS_LADDER} "switched off, few ops, or neither nvcc nor the emulator")
weft_say("Google Benchmark" ${WEFT_HAS_BENCHMARK} "not found; no host benchmarks")
weft_say("Python package" ${WEFT_HAS_BINDING} "switched off, sanitizing, or no Python with apache-tvm-ffi")
