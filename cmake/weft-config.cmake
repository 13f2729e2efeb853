# find_package(weft) defines weft::weft (C++) and weft::gs (C and Fortran). Both need the MPI they were built with.
include(CMakeFindDependencyMacro)
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT "CXX" IN_LIST languages)
  message(FATAL_ERROR "find_package(weft) needs the language CXX; enable it with project(... LANGUAGES C CXX)")
endif()
find_dependency(MPI COMPONENTS CXX)
include(${CMAKE_CURRENT_LIST_DIR}/weft-targets.cmake)
