# The libraries for other codes: weft::weft (C++, libweft) and weft::gs (C and Fortran, libweft_gs, gslib's entry points).
# find_package(weft) finds them in an install prefix, or in a build tree with weft_DIR=<build>/weft-package.
if(NOT WEFT_BUILD_LIBRARIES AND NOT WEFT_BUILD_TESTS)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

file(GLOB gs_sources CONFIGURE_DEPENDS cpp/weft/gs/*.cpp)

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/weft_shared.cpp CONTENT "// This library is the whole static one.\n")
add_library(weft_shared SHARED ${CMAKE_BINARY_DIR}/weft_shared.cpp)
target_link_libraries(weft_shared PRIVATE -Wl,--whole-archive weft -Wl,--no-whole-archive)
target_link_libraries(weft_shared PUBLIC MPI::MPI_CXX)
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME weft LINKER_LANGUAGE CXX)

# Self-contained. It exports only its own names and gslib's, so that no other can clash with the code it is linked into.
add_library(weft_gs SHARED ${gs_sources})
weft_compile_together(weft_gs ${gs_sources})
target_link_libraries(weft_gs PRIVATE -Wl,--whole-archive weft -Wl,--no-whole-archive
                      -Wl,--version-script=${CMAKE_SOURCE_DIR}/cpp/weft/gs/exported.map)
target_link_libraries(weft_gs PUBLIC MPI::MPI_CXX)
set_target_properties(weft_gs PROPERTIES EXPORT_NAME gs LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cpp/weft/gs/exported.map)

foreach(target weft_shared weft_gs)
  target_compile_features(${target} INTERFACE $<IF:$<STREQUAL:${target},weft_shared>,cxx_std_20,c_std_99>)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/cpp>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                        INSTALL_RPATH_USE_LINK_PATH ON)
endforeach()

install(TARGETS weft_shared weft_gs EXPORT weft-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT libraries NAMELINK_COMPONENT libraries)
# The headers for users: weft.hpp and those it includes. Nothing else is installed.
set(WEFT_PUBLIC_HEADERS
    device/device.hpp
    exchange/assembly.hpp
    exchange/choice.hpp
    exchange/exchange.hpp
    exchange/gather_scatter.hpp
    exchange/groups.hpp
    exchange/layout.hpp
    exchange/pattern.hpp
    exchange/schedule.hpp
    exchange/tuner.hpp
    fft/block.hpp
    fft/decomposition.hpp
    fft/grid.hpp
    fft/plan.hpp
    fft/tuner.hpp
    mpi/comm.hpp
    mpi/gpu_aware.hpp
    trace/recorder.hpp
    weft.hpp
    gs/gs.h)
foreach(header ${WEFT_PUBLIC_HEADERS})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES cpp/weft/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft/${folder} COMPONENT libraries)
endforeach()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${package} COMPONENT libraries)
export(EXPORT weft-targets NAMESPACE weft:: FILE ${CMAKE_BINARY_DIR}/weft-package/weft-targets.cmake)
configure_file(cmake/weft-config.cmake ${CMAKE_BINARY_DIR}/weft-package/weft-config.cmake COPYONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weft-package/weft-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weft-package/weft-config.cmake
              ${CMAKE_BINARY_DIR}/weft-package/weft-config-version.cmake DESTINATION ${package} COMPONENT libraries)
