#pragma once
// Cases that only `./cryolite test --all` runs.

#include <doctest/doctest.h>

namespace cryolite::test {

/// Of a case that shows on further shapes or flags what another case of its file shows: TEST_CASE("..." * slow()). The
/// file's name is in a list WITH_SLOW of tests/CMakeLists.txt.
inline doctest::test_suite slow() { return "slow"; }

}  // namespace cryolite::test
