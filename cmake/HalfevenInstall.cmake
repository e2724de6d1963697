# `cmake --install build/release` and, from another project, find_package(halfeven) with the target halfeven::halfeven.
include(CMakePackageConfigHelpers)

set(HALFEVEN_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/halfeven)
install(TARGETS halfeven EXPORT halfeven-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/halfeven DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT halfeven-targets NAMESPACE halfeven:: DESTINATION ${HALFEVEN_PACKAGE_DIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/halfeven-config.cmake.in
  ${PROJECT_BINARY_DIR}/halfeven-config.cmake INSTALL_DESTINATION ${HALFEVEN_PACKAGE_DIR})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/halfeven-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/halfeven-config.cmake
  ${PROJECT_BINARY_DIR}/halfeven-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindMPFR.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindoneDNN.cmake
  DESTINATION ${HALFEVEN_PACKAGE_DIR})
