# flashscope_unity(target...): eight files compiled as one, which halves a build from nothing: what continuous integration
# and a first `./dev run` do. Most of a small file's compilation is reading and instantiating the JSON and test libraries'
# templates, and a batch does it once. A name of a file's own (namespace { … }) must then be no other file's of its room;
# where two of one name are both right, tests/CMakeLists.txt leaves a file out. Who edits all day turns it off:
# cmake --preset dev -DFLASHSCOPE_UNITY=OFF.
option(FLASHSCOPE_UNITY "Compile files in batches: faster from nothing, slower after an edit" OFF)
function(flashscope_unity)
  if(FLASHSCOPE_UNITY)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()
