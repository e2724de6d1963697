# Language level, warnings and floating-point rules shared by every target of this project.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

add_library(halfeven_options INTERFACE)
target_compile_features(halfeven_options INTERFACE cxx_std_20)
# The contract defines every bit: no contraction into fused multiply-adds, nothing that reorders.
target_compile_options(halfeven_options INTERFACE
  -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow -Wpedantic
  $<$<BOOL:${HALFEVEN_WARNINGS_AS_ERRORS}>:-Werror>)
# g++ 12 warns of overlap in the standard library's own `"text" + std::string` (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(halfeven_options INTERFACE -Wno-restrict)
endif()
if(HALFEVEN_SANITIZE)
  # With sanitizers g++ 12 takes the empty half of an optional for an uninitialized one.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(halfeven_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_compile_options(halfeven_options INTERFACE -fsanitize=${HALFEVEN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(halfeven_options INTERFACE -fsanitize=${HALFEVEN_SANITIZE})
endif()
