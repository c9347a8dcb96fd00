# The ladder: kernels to be read and tried out (ladder/<topic>/NN_name.cu), in the tool, in their tests and in a
# library of their own, never in weft's. Left out of builds with few ops, such as the demo's.

weft_glob(WEFT_RUNGS ladder/*/*.cu)
set(WEFT_HAS_LADDER 0)
if(WEFT_LADDER AND WEFT_RUNGS AND WEFT_OPS STREQUAL "all" AND (WEFT_HAS_EMULATOR OR WEFT_HAS_CUDA))
  set(WEFT_HAS_LADDER 1)
endif()

# What the tool tells of a rung is the comment that its file opens with.
function(weft_ladder_lessons output)
  set(_paths ${WEFT_RUNGS})
  list(TRANSFORM _paths PREPEND "${CMAKE_SOURCE_DIR}/")
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/rungs.cmake" CONTENT "set(RUNGS ${WEFT_RUNGS})\n")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DROOT=${CMAKE_SOURCE_DIR}" "-DLIST=${CMAKE_BINARY_DIR}/generated/rungs.cmake"
            "-DOUTPUT=${output}" -P "${CMAKE_SOURCE_DIR}/cmake/ladder_lessons.cmake"
    DEPENDS ${_paths} "${CMAKE_BINARY_DIR}/generated/rungs.cmake" "${CMAKE_SOURCE_DIR}/cmake/ladder_lessons.cmake"
    VERBATIM)
endfunction()

if(WEFT_HAS_LADDER)
  set(_lessons "${CMAKE_BINARY_DIR}/generated/ladder_lessons.cpp")
  weft_ladder_lessons("${_lessons}")
  add_library(weft_ladder OBJECT "${_lessons}")
  target_link_libraries(weft_ladder PUBLIC weft_flags libweft)
  if(WEFT_HAS_EMULATOR)
    weft_emulate(_emulated ${WEFT_RUNGS} ladder/layouts.cu)
    target_sources(weft_ladder PRIVATE ${_emulated})
    target_compile_definitions(weft_ladder PRIVATE $<$<COMPILE_LANGUAGE:CXX>:WEFT_EMULATOR>)
    target_compile_options(weft_ladder PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${WEFT_EMULATOR_OPTIONS}>")
    weft_precompile(weft_ladder ladder/rung.h)
  endif()
  if(WEFT_HAS_CUDA)
    target_sources(weft_ladder PRIVATE ${WEFT_RUNGS})
    target_compile_options(weft_ladder PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${WEFT_NVCC_OPTIONS}>")
  endif()
  if(TARGET weft)
    target_link_libraries(weft PRIVATE weft_ladder)
  endif()
  # The same for Python, which loads it with weft.ladder and not before.
  if(WEFT_HAS_BINDING)
    add_library(weft_ladder_shared SHARED $<TARGET_OBJECTS:weft_ladder>)
    set(_linker CXX)
    if(WEFT_HAS_CUDA)
      set(_linker CUDA)  # which brings a CUDA runtime for its kernels
      target_link_options(weft_ladder_shared PRIVATE ${WEFT_OWN_FUNCTIONS})
    endif()
    set_target_properties(weft_ladder_shared PROPERTIES OUTPUT_NAME weft_ladder LINKER_LANGUAGE ${_linker})
    target_link_libraries(weft_ladder_shared PRIVATE libweft)
  endif()
endif()
