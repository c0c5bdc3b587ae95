# How this build compiles a generator program, for the command to do the same with a user's own .cpp. Halide.h is read as it
# is: behind a precompiled one, GCC 12 takes what it inlines of the standard library for the user's code, and warns of it.

set(program_target generator_gpt)
set(list "\", \"")
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(program_options -std=c++20 -O0 -g)
else()
  set(program_options -std=c++20 -O1 -DNDEBUG)
endif()
list(APPEND program_options -Wall -Wextra -fmax-errors=20 -fdiagnostics-color=never)
if(CRYOLITE_SANITIZE)
  list(APPEND program_options -fsanitize=${CRYOLITE_SANITIZE})
endif()
list(JOIN program_options ${list} program_options)
set(of_halide $<TARGET_PROPERTY:Halide::Halide,INTERFACE_INCLUDE_DIRECTORIES>)
set(fixed_libraries "\"$<TARGET_FILE:fmt::fmt>\", \"$<TARGET_FILE:OpenSSL::Crypto>\"")

# cryolite_user_program(FILE INCLUDE LIBRARIES HALIDE_INCLUDE HALIDE_LIBRARY): each a list
function(cryolite_user_program file include libraries halide_include halide_library)
  list(JOIN libraries ${list} libraries)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/${file} CONTENT "{
  \"compiler\": \"${CMAKE_CXX_COMPILER}\",
  \"version\": \"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\",
  \"halide\": \"${Halide_VERSION}\",
  \"options\": [\"${program_options}\"],
  \"definitions\": [\"$<JOIN:$<TARGET_PROPERTY:${program_target},COMPILE_DEFINITIONS>,${list}>\"],
  \"include\": [\"${include}\"],
  \"system_include\": [\"${halide_include}\"],
  \"compiler_library\": \"${halide_library}\",
  \"libraries\": [\"${libraries}\", \"${halide_library}\", ${fixed_libraries},
                \"-Wl,-rpath,$<PATH:GET_PARENT_PATH,${halide_library}>\"]
}
")
endfunction()
cryolite_user_program(user_program.json ${PROJECT_SOURCE_DIR}
                      "$<TARGET_FILE:cryolite_compiler>;$<TARGET_FILE:cryolite_bundle>;$<TARGET_FILE:cryolite_dialects>"
                      "$<JOIN:${of_halide},${list}>" $<TARGET_FILE:Halide::Halide>)
# Of an installation: the command puts its own folder, lib/cryolite, for the mark.
cryolite_user_program(user_program.installed.json $FOLDER/../../include/cryolite
                      "$FOLDER/../libcryolite_compiler.a;$FOLDER/../libcryolite_bundle.a;$FOLDER/../libcryolite_dialects.a"
                      $FOLDER/halide/include $FOLDER/halide/lib64/libHalide.so)
