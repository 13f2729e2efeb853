# The host's SIMD kernels: one translation unit per family, order and scalar type.
set(WEFT_SIMD_SOURCES "")
foreach(family poisson/simd_order poisson/simd_fields poisson/simd_levels maxwell/simd_order flow/simd_order)
  foreach(WEFT_SIMD_TYPE double float)
    foreach(WEFT_SIMD_ORDER RANGE 1 15)
      set(source ${CMAKE_BINARY_DIR}/${family}_${WEFT_SIMD_TYPE}_${WEFT_SIMD_ORDER}.cpp)
      configure_file(${CMAKE_SOURCE_DIR}/cpp/weft/${family}.cpp.in ${source} @ONLY)
      list(APPEND WEFT_SIMD_SOURCES ${source})
    endforeach()
  endforeach()
endforeach()
# Vectors are passed between functions of one build only.
set_source_files_properties(${WEFT_SIMD_SOURCES} PROPERTIES COMPILE_OPTIONS "-Wno-psabi;-Wno-ignored-attributes")
