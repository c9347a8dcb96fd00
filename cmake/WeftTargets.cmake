# The library, the bench and command-line parts, and the tool. Sources are globbed: adding an op touches one folder.

function(weft_glob variable)
  file(GLOB _found CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}" ${ARGN})
  list(FILTER _found EXCLUDE REGEX "/test[^/]*\\.cpp$")
  weft_keep_chosen_ops(_found)
  set(${variable} ${_found} PARENT_SCOPE)
endfunction()

weft_glob(WEFT_LIBRARY_SOURCES src/*/*.cpp ops/*/*.cpp pipelines/*/*.cpp)
list(FILTER WEFT_LIBRARY_SOURCES EXCLUDE REGEX "^src/(emulator|bench|binding|cli)/")
weft_glob(WEFT_EMULATOR_SOURCES src/emulator/*.cpp)
weft_glob(WEFT_KERNEL_SOURCES ops/*/*.cu src/bench/*.cu)
weft_glob(WEFT_BENCH_SOURCES src/bench/*.cpp)
weft_glob(WEFT_BINDING_SOURCES src/binding/*.cpp)
weft_glob(WEFT_CLI_SOURCES src/cli/*.cpp pipelines/*/tool/*.cpp)
list(REMOVE_ITEM WEFT_CLI_SOURCES src/cli/main.cpp)

# What every target of this tree compiles with; nothing of it reaches a user of the installed package.
add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${WEFT_WARNINGS}>")
target_include_directories(weft_flags INTERFACE "${CMAKE_SOURCE_DIR}/include" "${CMAKE_SOURCE_DIR}/src"
                           "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/generated")
target_link_libraries(weft_flags INTERFACE fmt::fmt Threads::Threads)
# What sources may ask with #if: which parts this build has. The parts that need CUDA are told only to sources that
# ask, so that ccache gives a build with nvcc all others of a build without.
target_compile_definitions(weft_flags INTERFACE $<$<BOOL:${WEFT_HAS_EMULATOR}>:WEFT_HAS_EMULATOR=1>)
function(weft_tell_parts)
  foreach(_source IN LISTS ARGN)
    foreach(_part CUDA CUBLASLT)
      file(STRINGS "${_source}" _asks REGEX WEFT_HAS_${_part} LIMIT_COUNT 1)
      if(_asks AND WEFT_HAS_${_part})
        set_property(SOURCE "${_source}" APPEND PROPERTY COMPILE_DEFINITIONS WEFT_HAS_${_part}=1)
      endif()
    endforeach()
  endforeach()
endfunction()
weft_tell_parts(${WEFT_LIBRARY_SOURCES} ${WEFT_KERNEL_SOURCES} ${WEFT_BENCH_SOURCES} ${WEFT_BINDING_SOURCES}
                ${WEFT_CLI_SOURCES})
foreach(_headers WEFT_CUDA_INCLUDE WEFT_CUBLASLT_INCLUDE)
  if(${_headers})
    target_include_directories(weft_flags SYSTEM INTERFACE "${${_headers}}")
  endif()
endforeach()

# weft_precompile(target headers...): what nearly every source of the target includes. The sources include it themselves
# all the same: without precompiled headers (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON) they compile as well.
# weft_precompile(target REUSE_FROM other): those of another target that is compiled with the same options.
function(weft_precompile target)
  if(ARGV1 STREQUAL REUSE_FROM)
    target_precompile_headers(${target} ${ARGN})
  else()
    list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>" OUTPUT_VARIABLE _headers)
    target_precompile_headers(${target} PRIVATE ${_headers})
  endif()
  # ccache asks for it, to see what the header was made of.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endfunction()

# Shared, so that every op's static registration is there for whoever links it.
# Its version, CUDA's, and the architectures that it holds machine code for; the last two are empty without nvcc.
set(_cuda_version "")
set(_cuda_architectures "")
if(WEFT_HAS_CUDA)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" _cuda_version "${CMAKE_CUDA_COMPILER_VERSION}")
  string(REPLACE ";" " " _cuda_architectures "${CMAKE_CUDA_ARCHITECTURES}")
  string(REPLACE "-real" "" _cuda_architectures "${_cuda_architectures}")
endif()
set(_facts "")
foreach(_fact "kVersion=${PROJECT_VERSION}" "kCudaVersion=${_cuda_version}"
        "kCudaArchitectures=${_cuda_architectures}")
  string(REGEX REPLACE "^([^=]*)=(.*)$"
         "extern const char* const \\1;\nconst char* const \\1 = \"\\2\";\n" _fact "${_fact}")
  string(APPEND _facts "${_fact}")
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/version.cpp" CONTENT "namespace weft {\n${_facts}}\n")
# Choices that were timed for some cards, of all ops that have any.
file(GLOB _plans CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/ops/*/plans.json")
set(_shipped "${CMAKE_BINARY_DIR}/generated/shipped_plans.cpp")
add_custom_command(OUTPUT "${_shipped}"
  COMMAND "${CMAKE_COMMAND}" "-DROOT=${CMAKE_SOURCE_DIR}" "-DOUTPUT=${_shipped}" -P
          "${CMAKE_SOURCE_DIR}/cmake/shipped_plans.cmake"
  DEPENDS ${_plans} "${CMAKE_SOURCE_DIR}/cmake/shipped_plans.cmake")
add_library(libweft SHARED "${CMAKE_BINARY_DIR}/generated/version.cpp" "${_shipped}" ${WEFT_LIBRARY_SOURCES})
set_target_properties(libweft PROPERTIES OUTPUT_NAME weft EXPORT_NAME weft VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX)
target_include_directories(libweft PUBLIC "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(libweft PUBLIC cxx_std_20)
target_compile_options(libweft PRIVATE ${WEFT_CHECKS_IN_PLACE})
target_link_libraries(libweft PRIVATE $<BUILD_INTERFACE:weft_flags> nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
weft_precompile(libweft algorithm cmath functional memory optional string vector fmt/format.h)

# A kernel is launched by the CUDA runtime that it is registered with, of which the library and a program beside it have
# one each. So each calls its own copies of the kit's inline functions: else a program's would launch the library's kernels.
set(WEFT_OWN_FUNCTIONS -Wl,-Bsymbolic-functions)

set(WEFT_NVCC_OPTIONS --expt-relaxed-constexpr -lineinfo -Xcompiler=-Wall,-Wextra
    $<$<BOOL:${WEFT_PTXAS_REPORT}>:-Xptxas=-v>)
if(WEFT_HAS_CUDA AND WEFT_KERNEL_SOURCES)
  add_library(weft_cuda OBJECT ${WEFT_KERNEL_SOURCES})
  target_compile_options(weft_cuda PRIVATE ${WEFT_NVCC_OPTIONS})
  target_link_libraries(weft_cuda PRIVATE weft_flags)
  target_sources(libweft PRIVATE $<TARGET_OBJECTS:weft_cuda>)
endif()
if(WEFT_HAS_CUDA)
  target_link_options(libweft PRIVATE ${WEFT_OWN_FUNCTIONS})
  # The core uses the CUDA runtime (streams, devices, graphs) whether or not there is a kernel.
  find_library(WEFT_CUDART_STATIC cudart_static REQUIRED
               HINTS "${WEFT_CUDA_INCLUDE}/.." ${CMAKE_CUDA_HOST_IMPLICIT_LINK_DIRECTORIES}
               ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} PATH_SUFFIXES lib64 lib lib/x64)
  target_link_libraries(libweft PRIVATE "${WEFT_CUDART_STATIC}" rt)
endif()

# -Wno-unknown-pragmas: #pragma unroll. -O1 is what the sanitizers and the compile time like best.
set(WEFT_EMULATOR_OPTIONS -fno-strict-aliasing -Wno-unknown-pragmas -O1)
# weft_emulate(variable sources...): the same kernel sources once more, as plain C++: a file that includes the .cu keeps
# the two compilations apart.
function(weft_emulate variable)
  set(_copies "")
  foreach(_source IN LISTS ARGN)
    string(REGEX REPLACE "\\.cu$" "_emulated.cpp" _copy "${CMAKE_BINARY_DIR}/generated/${_source}")
    file(CONFIGURE OUTPUT "${_copy}" CONTENT "#include \"${_source}\"\n")
    list(APPEND _copies "${_copy}")
  endforeach()
  set(${variable} ${_copies} PARENT_SCOPE)
endfunction()
if(WEFT_HAS_EMULATOR)
  weft_emulate(_emulated ${WEFT_KERNEL_SOURCES})
  if(WEFT_EMULATOR_SOURCES OR _emulated)
    add_library(weft_emulated OBJECT ${WEFT_EMULATOR_SOURCES} ${_emulated})
    target_compile_definitions(weft_emulated PRIVATE WEFT_EMULATOR)
    target_compile_options(weft_emulated PRIVATE ${WEFT_EMULATOR_OPTIONS})
    target_link_libraries(weft_emulated PRIVATE weft_flags Boost::headers)
    weft_precompile(weft_emulated cuda_runtime_api.h cuda_bf16.h cuda_fp16.h cuda_fp8.h algorithm cmath functional
                    memory optional string vector fmt/format.h)
    target_sources(libweft PRIVATE $<TARGET_OBJECTS:weft_emulated>)
  endif()
  # Without its compile definitions: a wheel, which links it statically, then has the same objects.
  target_link_libraries(libweft PRIVATE $<LINK_ONLY:Boost::context>)
endif()

function(weft_part name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PUBLIC weft_flags libweft nlohmann_json::nlohmann_json)
  target_compile_options(${name} PRIVATE ${WEFT_LIGHT_OPTIONS})
  if(WEFT_PARTS)
    list(GET WEFT_PARTS 0 _first)
    weft_precompile(${name} REUSE_FROM ${_first})
  else()
    weft_precompile(${name} algorithm functional iostream optional string vector fmt/format.h nlohmann/json.hpp)
  endif()
  if(WEFT_HAS_BENCHMARK)
    target_link_libraries(${name} PUBLIC benchmark::benchmark)
  endif()
endfunction()
set(WEFT_PARTS "")
if(WEFT_HAS_BENCHMARK)
  set_source_files_properties(src/bench/host.cpp PROPERTIES COMPILE_DEFINITIONS WEFT_HAS_BENCHMARK=1)
endif()
if(WEFT_BENCH_SOURCES)
  weft_part(weft_bench ${WEFT_BENCH_SOURCES})
  list(APPEND WEFT_PARTS weft_bench)
endif()
if(WEFT_CLI_SOURCES)
  weft_part(weft_cli ${WEFT_CLI_SOURCES})
  target_link_libraries(weft_cli PRIVATE CLI11::CLI11)
  list(APPEND WEFT_PARTS weft_cli)
endif()
if(EXISTS "${CMAKE_SOURCE_DIR}/src/cli/main.cpp")
  add_executable(weft src/cli/main.cpp)
  target_link_libraries(weft PRIVATE weft_flags libweft ${WEFT_PARTS})
endif()

# The Python package's library: tvm-ffi functions over the registry. It links no Python.
if(WEFT_HAS_BINDING)
  add_library(weft_ffi SHARED ${WEFT_BINDING_SOURCES})
  target_include_directories(weft_ffi SYSTEM PRIVATE ${WEFT_TVM_FFI_INCLUDES})
  target_link_libraries(weft_ffi PRIVATE weft_flags libweft nlohmann_json::nlohmann_json
                        "${WEFT_TVM_FFI_LIBRARY}")
  target_link_options(weft_ffi PRIVATE ${WEFT_OWN_FUNCTIONS})
  if(TARGET weft_bench)
    target_link_libraries(weft_ffi PRIVATE weft_bench)
  endif()
endif()
