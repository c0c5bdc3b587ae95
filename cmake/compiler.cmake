# The compiler's half: dsl <- schedules <- generators, in one library that generator programs link.
file(GLOB compiler_sources CONFIGURE_DEPENDS dsl/*.cpp schedules/*.cpp schedules/cpu/*.cpp schedules/gpu/*.cpp schedules/models/*.cpp
     generators/*/*.cpp generators/*/*/*.cpp)
list(FILTER compiler_sources EXCLUDE REGEX "generators/programs/")
add_library(cryolite_compiler STATIC ${compiler_sources})
target_link_libraries(cryolite_compiler PUBLIC cryolite_options cryolite_bundle cryolite_dialects Halide::Halide
                      nlohmann_json::nlohmann_json CLI11::CLI11 OpenSSL::Crypto)
target_precompile_headers(cryolite_compiler PRIVATE <Halide.h>)
cryolite_units(cryolite_compiler)
cryolite_cold(cryolite_compiler)
option(CRYOLITE_VERIFY "check the step's program after each pass of the compiler; elsewhere CRYOLITE_VERIFY=1 does" OFF)
if(CRYOLITE_VERIFY)
  set_source_files_properties(generators/passes/pipeline.cpp PROPERTIES COMPILE_DEFINITIONS CRYOLITE_VERIFY)
endif()

function(cryolite_generator name)
  add_executable(generator_${name} generators/programs/${name}.cpp)
  set_target_properties(generator_${name} PROPERTIES OUTPUT_NAME ${name}
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/generators)
  target_link_libraries(generator_${name} PRIVATE cryolite_compiler)
  cryolite_cold(generator_${name})
  target_precompile_headers(generator_${name} REUSE_FROM cryolite_compiler)
  add_dependencies(${cryolite_all} generator_${name})
  set_property(GLOBAL APPEND PROPERTY cryolite_generators generator_${name})
endfunction()
cryolite_generator(gpt)
cryolite_generator(llama)
include(cmake/user_program.cmake)
cryolite_generator(digits)
