# One translation unit per order and scalar type of the host's SIMD kernels.
set(WEFT_MAXWELL_SIMD_SOURCES "")
foreach(WEFT_SIMD_TYPE double float)
  foreach(WEFT_SIMD_ORDER RANGE 1 15)
    set(source ${CMAKE_BINARY_DIR}/maxwell/simd_${WEFT_SIMD_TYPE}_${WEFT_SIMD_ORDER}.cpp)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/simd_order.cpp.in ${source} @ONLY)
    list(APPEND WEFT_MAXWELL_SIMD_SOURCES ${source})
  endforeach()
endforeach()
# Vectors are passed between functions of one build only.
set_source_files_properties(${WEFT_MAXWELL_SIMD_SOURCES} PROPERTIES COMPILE_OPTIONS "-Wno-psabi;-Wno-ignored-attributes")
