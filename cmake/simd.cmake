# The host's SIMD kernels: one translation unit per family and order.
set(WEFT_SIMD_SOURCES "")
foreach(family poisson maxwell flow)
  foreach(WEFT_SIMD_ORDER RANGE 1 15)
    set(source ${CMAKE_BINARY_DIR}/${family}/simd_order_${WEFT_SIMD_ORDER}.cpp)
    configure_file(${CMAKE_SOURCE_DIR}/cpp/weft/${family}/simd_order.cpp.in ${source} @ONLY)
    list(APPEND WEFT_SIMD_SOURCES ${source})
  endforeach()
endforeach()
# Vectors are passed between functions of one build only.
set_source_files_properties(${WEFT_SIMD_SOURCES} PROPERTIES COMPILE_OPTIONS "-Wno-psabi;-Wno-ignored-attributes")
