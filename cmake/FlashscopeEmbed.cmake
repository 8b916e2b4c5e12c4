# flashscope_embed(target name file...): compiles data files into `target` as
#   std::span<const EmbeddedFile> flashscope::embedded_<name>()   (viz/io/embedded.h)
function(flashscope_embed target name)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
  string(JOIN "," files ${ARGN})
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DNAME=${name} -DFILES=${files} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
