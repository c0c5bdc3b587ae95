# What keeps a first build short: fewer translation units, and code that no step waits for optimised less.

option(CRYOLITE_UNITS "Compile some files as one, so that a header is read once; OFF: each by itself" ON)
set(CRYOLITE_UNIT_FILES 40 CACHE STRING "How many files may be compiled as one")

# The sources of a target in as few units as they fit into, neighbours together; those of folders that differ in their first
# DEPTH names are apart, as such rooms may mean different things by a word.
function(cryolite_units target depth)
  if(NOT CRYOLITE_UNITS)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP UNITY_BUILD_RELOCATABLE ON)
  get_target_property(sources ${target} SOURCES)
  list(SORT sources)
  set(rooms)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
    cmake_path(GET name PARENT_PATH room)
    string(REGEX MATCHALL "[^/]+" room "${room}")
    list(SUBLIST room 0 ${depth} room)
    list(JOIN room _ room)
    list(APPEND rooms ${room})
    list(APPEND sources_${room} ${source})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  foreach(room ${rooms})
    list(LENGTH sources_${room} count)
    math(EXPR units "(${count} + ${CRYOLITE_UNIT_FILES} - 1) / ${CRYOLITE_UNIT_FILES}")
    set(at 0)
    foreach(source ${sources_${room}})
      math(EXPR unit "${at} * ${units} / ${count}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${room}_${unit})
      math(EXPR at "${at} + 1")
    endforeach()
  endforeach()
endfunction()

# For code that runs beside the steps and not in them: at -Og GCC takes a third less time than at -O1, half of it by collecting
# no garbage below a gigabyte, and makes smaller code. A debug build keeps its own level.
function(cryolite_cold target)
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-Og>
                         $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>)
endfunction()
