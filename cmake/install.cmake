# `cmake --install BUILD --prefix P`, and `cpack`: everything below P is found from where it lies, so P may be moved.
#   P/bin/cryolite          a link to the command
#   P/lib/cryolite/         what the command finds from its own place: bin/, generators/, dialects/, apps/ (data), halide/
#   P/lib/*.a, P/include    the libraries, for find_package(Cryolite COMPONENTS runtime client compiler) in P/lib/cmake

include(CMakePackageConfigHelpers)
set(home lib/cryolite)
set(package lib/cmake/Cryolite)

# Each component is an export of its own: who asks for one needs nothing of the others.
function(cryolite_component component)
  install(TARGETS ${ARGN} EXPORT Cryolite_${component} ARCHIVE DESTINATION lib COMPONENT ${component})
  install(EXPORT Cryolite_${component} NAMESPACE Cryolite:: DESTINATION ${package} COMPONENT ${component}
          FILE Cryolite-${component}.cmake)
endfunction()
function(cryolite_headers component)
  install(DIRECTORY ${ARGN} DESTINATION include/cryolite COMPONENT ${component} FILES_MATCHING PATTERN *.h)
endfunction()

cryolite_component(runtime cryolite_options cryolite_dialects cryolite_bundle cryolite_runtime)
cryolite_headers(runtime runtime bundle dialects)
cryolite_component(client cryolite_client)
cryolite_headers(client client)

install(TARGETS cryolite EXPORT Cryolite_command RUNTIME DESTINATION ${home}/bin COMPONENT command)
install(EXPORT Cryolite_command NAMESPACE Cryolite:: DESTINATION ${package} COMPONENT command
        FILE Cryolite-command.cmake)
install(CODE [[
  file(MAKE_DIRECTORY "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin")
  file(CREATE_LINK ../lib/cryolite/bin/cryolite "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin/cryolite" SYMBOLIC)
]] COMPONENT command)
foreach(app gpt digits)
  install(DIRECTORY apps/${app}/data DESTINATION ${home}/apps/${app} COMPONENT command)
endforeach()
install(DIRECTORY apps/cryolite/peers apps/cryolite/new_project apps/cryolite/export_library
        DESTINATION ${home}/apps/cryolite COMPONENT command PATTERN *.cpp EXCLUDE PATTERN *.h EXCLUDE)
if(TARGET cryolite_mpi)
  install(TARGETS cryolite_mpi LIBRARY DESTINATION ${home}/bin COMPONENT command)
endif()
get_property(dialects GLOBAL PROPERTY cryolite_dialects)
foreach(dialect ${dialects})
  install(TARGETS ${dialect} LIBRARY DESTINATION ${home}/dialects COMPONENT command)
endforeach()

if(CRYOLITE_COMPILER)
  cryolite_component(compiler cryolite_compiler)
  cryolite_headers(compiler dsl schedules generators)
  get_property(generators GLOBAL PROPERTY cryolite_generators)
  set_target_properties(${generators} PROPERTIES INSTALL_RPATH $ORIGIN/../halide/lib64)
  install(TARGETS ${generators} RUNTIME DESTINATION ${home}/generators COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/user_program.installed.json DESTINATION ${home} RENAME user_program.json
          COMPONENT command)
  # Halide's wheel, as it came: its CMake files find it from where they lie.
  cmake_path(GET Halide_DIR PARENT_PATH wheel)
  cmake_path(GET wheel PARENT_PATH wheel)
  cmake_path(GET wheel PARENT_PATH wheel)
  install(DIRECTORY ${wheel}/include ${wheel}/lib64 ${wheel}/share ${wheel}/bin DESTINATION ${home}/halide
          USE_SOURCE_PERMISSIONS COMPONENT compiler PATTERN Halide_Python EXCLUDE PATTERN libHalidePyStubs.a EXCLUDE)
endif()

configure_package_config_file(cmake/CryoliteConfig.cmake.in CryoliteConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(CryoliteConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/CryoliteConfig.cmake ${PROJECT_BINARY_DIR}/CryoliteConfigVersion.cmake
              cmake/add_model.cmake DESTINATION ${package} COMPONENT runtime)
install(FILES LICENSE NOTICE DESTINATION share/doc/cryolite COMPONENT runtime)
install(FILES docs/archive.md DESTINATION share/doc/cryolite RENAME README.md COMPONENT runtime)

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # what is packed is the target `command`: no tests are built for it
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME cryolite)
set(CPACK_SYSTEM_NAME ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "A language, compiler and runtime for neural-network training steps")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
