# Which files are compiled for which processor, and how kernels are compiled at run time.
#
# The kernels and the files whose loops run once per step or iteration are compiled for WEFT_ARCH, everything else for
# processors of ten years ago: x86-64-v3 has the fused multiply-adds, on which the last bit of results depends.
set(WEFT_PROCESSOR_FLAGS -march=${WEFT_ARCH} -DWEFT_FOR_PROCESSOR=1)
set(WEFT_PORTABLE_FLAGS -march=${WEFT_ARCH})
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  list(APPEND WEFT_PROCESSOR_FLAGS -mprefer-vector-width=512)
  file(STRINGS /proc/cpuinfo has_them REGEX "^flags.* fma .* avx2 " LIMIT_COUNT 1)
  if(has_them AND NOT WEFT_ARCH MATCHES "^x86-64(-v2)?$")
    set(WEFT_PORTABLE_FLAGS -march=x86-64-v3)
  elseif(WEFT_ARCH STREQUAL native)
    set(WEFT_PORTABLE_FLAGS -march=x86-64)
  endif()
endif()
add_library(weft_processor INTERFACE)
target_compile_options(weft_processor INTERFACE ${WEFT_PROCESSOR_FLAGS})
add_library(weft_portable INTERFACE)
target_compile_options(weft_portable INTERFACE ${WEFT_PORTABLE_FLAGS})

file(GLOB WEFT_HOT_SOURCES CONFIGURE_DEPENDS cpp/weft/*/simd_*.cpp)
foreach(file device/host_device device/limits fft/host_stages bench/lines solver/amg mesh/geometry
        poisson/operator poisson/transfer poisson/schwarz poisson/merged_cg poisson/merged_chebyshev
        poisson/component_passes maxwell/sources flow/terms flow/cofactors flow/forces
        space/space
        turbulence/solver turbulence/statistics turbulence/spectra turbulence/forcing turbulence/real_plane)
  list(APPEND WEFT_HOT_SOURCES ${CMAKE_SOURCE_DIR}/cpp/weft/${file}.cpp)
endforeach()

# Up to eight files of a folder are compiled as one, in less than half the time of eight compilations. Hot files are
# excluded: the compiler would contract other multiply-adds, and results would differ in the last bit. GCC takes files
# that are compiled as one for headers, and warns of their anonymous namespaces.
function(weft_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    list(APPEND of_${folder} ${source})
    list(LENGTH of_${folder} count)
    math(EXPR part "(${count} + 7) / 8")
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${folder}_${part})
  endforeach()
endfunction()

# Definitions for device/host_compiler.cpp: the compiler, and the options for files that are compiled for `arch`.
function(weft_host_compiler result arch)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} --version OUTPUT_VARIABLE version)
  string(REGEX REPLACE "\n.*" "" version "${version}")
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  list(TRANSFORM WEFT_PROCESSOR_FLAGS REPLACE "^-march=.*" "-march=${arch}" OUTPUT_VARIABLE processor_flags)
  list(JOIN WEFT_FLAGS " " flags)
  list(JOIN processor_flags " " processor_flags)
  string(JOIN " " options ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} -std=c++20 ${flags} ${processor_flags}
         ${OpenMP_CXX_FLAGS})
  set(${result} "WEFT_HOST_CXX=\"${CMAKE_CXX_COMPILER}\"" "WEFT_HOST_CXX_VERSION=\"${version}\""
      "WEFT_HOST_CXX_OPTIONS=\"${options}\"" PARENT_SCOPE)
endfunction()
