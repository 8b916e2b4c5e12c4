# flashscope_embed(target name file...): compiles data files into `target` as
#   std::span<const EmbeddedFile> flashscope::embedded_<name>()   (viz/io/embedded.h)
# No file at all is fine: the span is empty.
function(flashscope_embed target name)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
  # The list travels in a file: a command line would need its own rules for semicolons and commas in paths. Writing it
  # only when it changes also makes a removed file rebuild the output.
  set(list ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.txt)
  string(JOIN "\n" lines ${ARGN})
  file(CONFIGURE OUTPUT ${list} CONTENT "${lines}\n" @ONLY)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DNAME=${name} -DLIST=${list} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${ARGN} ${list} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # each has a file_0
endfunction()
