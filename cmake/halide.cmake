# Halide's CMake package comes with its Python wheel: found in the checkout's own environment, which
# ./cryolite makes, unless Halide_DIR or CMAKE_PREFIX_PATH name another.

file(GLOB wheels ${PROJECT_SOURCE_DIR}/.venv/lib*/python3*/site-packages/halide)
foreach(wheel ${wheels})
  list(APPEND CMAKE_PREFIX_PATH ${wheel} ${wheel}/lib64/cmake)
endforeach()
find_package(HalideHelpers 21 QUIET)
if(NOT HalideHelpers_FOUND)
  message(FATAL_ERROR "Halide 21 was not found: run ./cryolite once, which installs its wheel, or pass "
                      "-DHalide_DIR and -DHalideHelpers_DIR")
endif()
find_package(Halide 21 REQUIRED)
