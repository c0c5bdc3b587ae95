# Generator programs and their bundles in any project, as Halide's add_halide_generator and add_halide_library are.

# cryolite_add_model(NAME SOURCES FILE... [BUNDLE [PRESET PRESET] [PARAMS KEY=VALUE...]])
#
# NAME is the generator program: an executable whose main() returns cryolite::program<Model, schedule>(...).
# BUNDLE adds one bundle of the same name: cryolite_add_bundle(NAME FROM NAME PRESET ... PARAMS ...).
function(cryolite_add_model name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "BUNDLE" "PRESET" "SOURCES;PARAMS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "cryolite_add_model(${name}): ${arg_UNPARSED_ARGUMENTS} is not expected here; "
                        "see cmake/add_model.cmake")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "cryolite_add_model(${name}) needs SOURCES, the generator program")
  endif()
  if(NOT TARGET Cryolite::compiler)
    message(FATAL_ERROR "cryolite_add_model(${name}) needs the compiler: find_package(Cryolite COMPONENTS client compiler)")
  endif()
  if((arg_PRESET OR arg_PARAMS) AND NOT arg_BUNDLE)
    message(FATAL_ERROR "cryolite_add_model(${name}): PRESET and PARAMS say how the bundle is compiled; add BUNDLE")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE Cryolite::compiler)
  if(arg_BUNDLE)
    set(given)
    if(arg_PRESET)
      set(given PRESET ${arg_PRESET})
    endif()
    cryolite_add_bundle(${name} FROM ${name} ${given} PARAMS ${arg_PARAMS})
  endif()
endfunction()

# cryolite_add_bundle(NAME FROM MODEL [PRESET PRESET] [PARAMS KEY=VALUE...] [OUTPUT_DIRECTORY DIR])
#
# The build runs the generator program MODEL and compiles NAME.bundle, for this machine's processor, with the program's PRESET
# and PARAMS: flags of `cryolite train`, such as batch=8 or data=my.txt, a path from the current source folder. It is compiled
# again where a file changes that these name: data, val, init, tokenizer, schedule, config. One program may have several bundles.
# The app that trains links NAME_bundle, which brings Cryolite::client and is built before it, and opens
# Bundle(bundle_folder("NAME")) (client/bundle_folder.h). That looks beside the executable, so the bundle is written where
# executables of the current folder are: DIR, else CMAKE_RUNTIME_OUTPUT_DIRECTORY, else the current binary folder. The property
# CRYOLITE_BUNDLE_FOLDER of NAME_bundle is its path, for install(DIRECTORY ... DESTINATION lib/cryolite/bundles).
function(cryolite_add_bundle name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FROM;PRESET;OUTPUT_DIRECTORY" "PARAMS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "cryolite_add_bundle(${name}): ${arg_UNPARSED_ARGUMENTS} is not expected here; "
                        "see cmake/add_model.cmake")
  endif()
  if(NOT TARGET "${arg_FROM}")
    message(FATAL_ERROR "cryolite_add_bundle(${name}) needs FROM MODEL, a target of cryolite_add_model, not '${arg_FROM}'")
  endif()
  if(NOT TARGET Cryolite::command)
    message(FATAL_ERROR "cryolite_add_bundle(${name}) needs the compiler: find_package(Cryolite COMPONENTS client compiler)")
  endif()
  set(beside ${arg_OUTPUT_DIRECTORY})
  if(NOT beside)
    set(beside ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  endif()
  if(NOT beside)
    set(beside ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  get_property(several GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(several AND NOT beside MATCHES "\\$<")
    string(APPEND beside /$<CONFIG>)
  endif()
  cmake_path(ABSOLUTE_PATH beside BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set(folder ${beside}/${name}.bundle)
  set(flags)
  if(arg_PRESET)
    list(APPEND flags --preset ${arg_PRESET})
  endif()
  set(depends)
  foreach(param ${arg_PARAMS})
    list(APPEND flags --${param})
    if(param MATCHES "^tokenizer=(char|gpt2)$")  # a word, not a file
      continue()
    endif()
    if(param MATCHES "^(data|val|init|tokenizer|schedule|config)=(.*)$")  # files that decide what is compiled
      cmake_path(ABSOLUTE_PATH CMAKE_MATCH_2 BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE file)
      list(APPEND depends ${file})
    endif()
  endforeach()
  add_custom_command(
    OUTPUT ${folder}/plan.json
    BYPRODUCTS ${folder}/kernels.so ${folder}/config.toml
    COMMAND Cryolite::command compile $<TARGET_FILE:${arg_FROM}> ${flags} --out ${folder}
            --cache ${CMAKE_CURRENT_BINARY_DIR}/${name}.cache
    DEPENDS ${arg_FROM} ${depends}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    COMMENT "Compiling the kernels of ${name}"
    VERBATIM)
  add_custom_target(${name}_kernels DEPENDS ${folder}/plan.json)
  add_library(${name}_bundle INTERFACE)
  target_link_libraries(${name}_bundle INTERFACE Cryolite::client)
  add_dependencies(${name}_bundle ${name}_kernels)
  set_target_properties(${name}_bundle PROPERTIES CRYOLITE_BUNDLE_FOLDER ${folder})
endfunction()
