# Writes the source file for flashscope_embed(): one byte array a file. LIST holds one path a line.
file(STRINGS ${LIST} files)
set(arrays "")
set(table "")
set(index 0)
foreach(file IN LISTS files)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  get_filename_component(base ${file} NAME)
  string(APPEND arrays "const unsigned char file_${index}[] = {${bytes}0};\n")
  string(APPEND table "    {\"${base}\", {reinterpret_cast<const char*>(file_${index}), sizeof file_${index} - 1}},\n")
  math(EXPR index "${index} + 1")
endforeach()
if(table)
  set(files_of_table "${arrays}const EmbeddedFile files[] = {\n${table}};\n")
  set(span "files")
else()
  set(files_of_table "")
  set(span "{}")
endif()
file(WRITE ${OUTPUT} "// Generated from data files by cmake/embed.cmake.
#include \"viz/io/embedded.h\"
namespace flashscope {
namespace {
${files_of_table}}  // namespace
std::span<const EmbeddedFile> embedded_${NAME}() { return ${span}; }
}  // namespace flashscope
")
