# MPFR with the GMP it stands on, C++ part included: target MPFR::mpfr.
find_path(MPFR_INCLUDE mpfr.h)
find_library(MPFR_LIBRARY mpfr)
find_library(GMP_LIBRARY gmp)
find_library(GMPXX_LIBRARY gmpxx)
mark_as_advanced(MPFR_INCLUDE MPFR_LIBRARY GMP_LIBRARY GMPXX_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MPFR REQUIRED_VARS MPFR_LIBRARY GMPXX_LIBRARY GMP_LIBRARY MPFR_INCLUDE)
if(MPFR_FOUND AND NOT TARGET MPFR::mpfr)
  add_library(MPFR::mpfr INTERFACE IMPORTED)
  target_include_directories(MPFR::mpfr INTERFACE ${MPFR_INCLUDE})
  target_link_libraries(MPFR::mpfr INTERFACE ${MPFR_LIBRARY} ${GMPXX_LIBRARY} ${GMP_LIBRARY})
endif()
