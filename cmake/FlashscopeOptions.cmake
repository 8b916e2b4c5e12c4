# Language level, warnings and sanitizers for every target of ours: link flashscope::options.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(FLASHSCOPE_CCACHE ccache)
if(FLASHSCOPE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FLASHSCOPE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${FLASHSCOPE_CCACHE})
endif()

add_library(flashscope_options INTERFACE)
add_library(flashscope::options ALIAS flashscope_options)
target_include_directories(flashscope_options INTERFACE ${CMAKE_SOURCE_DIR})
# Results must not depend on the build type or the compiler's mood: no contraction into fused multiply-adds.
target_compile_options(flashscope_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${FLASHSCOPE_WERROR}>>:-Werror>)
if(FLASHSCOPE_SANITIZE)
  target_compile_options(flashscope_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${FLASHSCOPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  if(FLASHSCOPE_SANITIZE MATCHES "undefined")
    # Pointers outside the model: AddressSanitizer ends a run that follows a bad one, and these checks at every member of
    # every template of the JSON and test libraries are a third of their build.
    set(name $<TARGET_PROPERTY:NAME>)
    target_compile_options(flashscope_options INTERFACE
      $<$<NOT:$<OR:$<STREQUAL:${name},flashscope_sim>,$<STREQUAL:${name},flashscope_kernels>>>:-fno-sanitize=alignment,null,object-size,vptr>)
  endif()
  target_link_options(flashscope_options INTERFACE -fsanitize=${FLASHSCOPE_SANITIZE})
endif()

# The commit stands in --version and in every file written. Asked at configure time; "unknown" outside a checkout.
if(NOT FLASHSCOPE_COMMIT)  # may be given: a source archive has no history
  execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE FLASHSCOPE_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT FLASHSCOPE_COMMIT)
  set(FLASHSCOPE_COMMIT unknown)
endif()
