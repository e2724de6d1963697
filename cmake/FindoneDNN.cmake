# oneDNN 2.6 (Debian 12) or 3.x: oneDNN::oneDNN, and oneDNN_OPENMP if its threads are OpenMP's. Debian's own config asks
# for OpenCL, so headers and library are looked for by hand.
find_path(oneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(oneDNN_LIBRARY dnnl)
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)
set(oneDNN_OPENMP OFF)
if(oneDNN_INCLUDE_DIR AND EXISTS ${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_config.h)
  file(STRINGS ${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_config.h runtime REGEX "#define DNNL_CPU_THREADING_RUNTIME ")
  if(runtime MATCHES "OMP")
    set(oneDNN_OPENMP ON)
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR)
if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(oneDNN::oneDNN PROPERTIES
    IMPORTED_LOCATION ${oneDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${oneDNN_INCLUDE_DIR})
endif()
