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
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/user_program.json CONTENT "{
  \"compiler\": \"${CMAKE_CXX_COMPILER}\",
  \"version\": \"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\",
  \"halide\": \"${Halide_VERSION}\",
  \"options\": [\"${program_options}\"],
  \"definitions\": [\"$<JOIN:$<TARGET_PROPERTY:${program_target},COMPILE_DEFINITIONS>,${list}>\"],
  \"include\": [\"${CMAKE_SOURCE_DIR}\"],
  \"system_include\": [\"$<JOIN:$<TARGET_PROPERTY:Halide::Halide,INTERFACE_INCLUDE_DIRECTORIES>,${list}>\"],
  \"compiler_library\": \"$<TARGET_FILE:Halide::Halide>\",
  \"libraries\": [\"$<TARGET_FILE:cryolite_compiler>\", \"$<TARGET_FILE:cryolite_bundle>\",
                \"$<TARGET_FILE:cryolite_dialects>\", \"$<TARGET_FILE:Halide::Halide>\",
                \"$<TARGET_FILE:fmt::fmt>\", \"$<TARGET_FILE:OpenSSL::Crypto>\",
                \"-Wl,-rpath,$<TARGET_FILE_DIR:Halide::Halide>\"]
}
")
