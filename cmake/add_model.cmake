# Generator programs and their bundles in any project, as Halide's add_halide_generator and add_halide_library are.

# cryolite_add_model(NAME SOURCES FILE... [BUNDLE [PRESET PRESET] [PARAMS KEY=VALUE...]])
#
# NAME is the generator program: an executable whose main() returns cryolite::program<Model, schedule>(...).
# With BUNDLE the build runs it and compiles NAME.bundle in the current binary folder, for this machine's processor, with the
# program's PRESET and PARAMS: flags of `cryolite train`, such as batch=8 or data=my.txt, a path from the current source folder.
# It is compiled again where a file changes that these name: data, val, init, tokenizer, schedule, config.
# The app that trains links NAME_bundle, which brings Cryolite::client and is built before it, and opens
# Bundle(bundle_folder("NAME")) (client/bundle_folder.h), beside the app's executable.
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
  if(NOT arg_BUNDLE)
    return()
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}.bundle)
  set(flags)
  if(arg_PRESET)
    list(APPEND flags --preset ${arg_PRESET})
  endif()
  foreach(param ${arg_PARAMS})
    list(APPEND flags --${param})
  endforeach()
  set(depends)
  foreach(param ${arg_PARAMS})
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
    COMMAND Cryolite::command compile $<TARGET_FILE:${name}> ${flags} --out ${folder}
            --cache ${CMAKE_CURRENT_BINARY_DIR}/${name}.cache
    DEPENDS ${name} ${depends}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    COMMENT "Compiling the kernels of ${name}"
    VERBATIM)
  add_custom_target(${name}_kernels DEPENDS ${folder}/plan.json)
  add_library(${name}_bundle INTERFACE)
  target_link_libraries(${name}_bundle INTERFACE Cryolite::client)
  add_dependencies(${name}_bundle ${name}_kernels)
endfunction()
