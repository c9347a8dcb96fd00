# cmake --install: the library, the public headers, the tool, and what find_package(weft) reads.
include(CMakePackageConfigHelpers)

# A wheel takes the component `python` alone.
if(WEFT_HAS_BINDING AND SKBUILD)
  set_target_properties(weft_ffi libweft PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(FILES "$<TARGET_FILE:fmt::fmt>" DESTINATION weft/lib RENAME "$<TARGET_SONAME_FILE_NAME:fmt::fmt>"
          COMPONENT python)
  # A wheel has no symbolic links: the file's name is the one that the loader asks for.
  set_target_properties(libweft PROPERTIES VERSION "${PROJECT_VERSION_MAJOR}")
  install(TARGETS libweft weft_ffi LIBRARY DESTINATION weft/lib COMPONENT python NAMELINK_SKIP)
endif()

install(TARGETS libweft EXPORT weftTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET weft)
  install(TARGETS weft RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  set_target_properties(weft PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()
install(FILES ${WEFT_PUBLIC_HEADERS} "${CMAKE_BINARY_DIR}/generated/weft/ops.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft")
# Beside weft/ops.h, whose quoted includes find them there.
foreach(_header IN LISTS WEFT_OP_HEADERS)
  get_filename_component(_folder "${_header}" DIRECTORY)
  install(FILES "${_header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft/${_folder}")
endforeach()

foreach(_data workloads assets)
  if(EXISTS "${CMAKE_SOURCE_DIR}/${_data}")
    install(DIRECTORY "${_data}" DESTINATION "${CMAKE_INSTALL_DATADIR}/weft")
  endif()
endforeach()

set(_config "${CMAKE_INSTALL_LIBDIR}/cmake/weft")
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION "${_config}")
configure_package_config_file(cmake/weftConfig.cmake.in "${CMAKE_BINARY_DIR}/weftConfig.cmake"
                              INSTALL_DESTINATION "${_config}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/weftConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/weftConfig.cmake" "${CMAKE_BINARY_DIR}/weftConfigVersion.cmake"
        DESTINATION "${_config}")
