# Included by kernels/CMakeLists.txt after flashscope_kernels exists. The library itself globs measure/*.cpp, and measure/*.cu
# where there is CUDA.
if(FLASHSCOPE_HAS_CUDA)
  # CUPTI: headers only, the library is opened at run time. Without the headers the counters are "unavailable (built
  # without CUPTI headers)".
  if(TARGET CUDA::cupti)
    target_include_directories(flashscope_kernels SYSTEM PRIVATE
      $<TARGET_PROPERTY:CUDA::cupti,INTERFACE_INCLUDE_DIRECTORIES>)
  endif()
  # What the counters count, what L2 keeps, what runs beside mma.sync: the facts behind the model (docs/deviations.md).
  foreach(probe probe l2_probe l2_state_probe mma_probe)
    add_executable(flashscope_${probe} ${CMAKE_CURRENT_LIST_DIR}/probe/${probe}.cu)
    target_link_libraries(flashscope_${probe} PRIVATE flashscope_kernels CUDA::cudart_static)
  endforeach()
endif()
