#pragma once
// What the tests of the compiler's half share.

#include <doctest/doctest.h>

#include <regex>
#include <string>

#include "generators/codegen/child.h"
#include "generators/checks/gradient_check.h"

namespace cryolite::test {

using namespace compiler;

/// The message of the error that `action` throws, without the line of this test that it may begin with; empty when it
/// throws none.
template <typename Action> std::string error_of(Action &&action) {
    try {
        action();
    } catch (const std::exception &e) {
        return std::regex_replace(std::string(e.what()), std::regex("^test_\\w+\\.cpp:\\d+: "), "");
    } catch (const Halide::Error &e) {
        return e.what();
    }
    return "";
}

/// What `work` returns in a child process: Funcs are built and run there, never in the test itself,
/// whose threads and names would carry over. An error there is one here.
inline std::string in_child(const std::function<std::string()> &work) {
    std::string output;
    share_jit_runtime();
    run_children(
        1, 1, 300, [&](int) { return work(); },
        [&](int, const ChildResult &r) {
            if (!r.error.empty()) fail("{}", r.error);
            output = r.output;
        });
    return output;
}

/// Every gradient of the layer agrees with finite differences, and with the derived one where asked
/// for.
inline void check_gradients(const LayerTester &tester) {
    for (const GradientError &e : tester.check()) {
        CAPTURE(e.name);
        CHECK(e.differences < 1e-6);
        CHECK(e.derived < 1e-9);
    }
}

/// Numbers that are computed in a child.
inline std::vector<double> numbers_in_child(const std::function<std::vector<double>()> &work) {
    std::string bytes = in_child([&] {
        const std::vector<double> y = work();
        return std::string(reinterpret_cast<const char *>(y.data()), y.size() * sizeof(double));
    });
    std::vector<double> y(bytes.size() / sizeof(double));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char *>(y.data()));
    return y;
}
/// The output of a layer.
inline std::vector<double> output_of(const LayerTester &tester) {
    return numbers_in_child([&] { return tester.output(); });
}
/// The gradient of its input `k` where the adjoint of the output is `dy`.
inline std::vector<double> gradient_of(const LayerTester &tester, int k, const std::vector<double> &dy) {
    return numbers_in_child([&] { return tester.gradient(k, dy); });
}

}  // namespace cryolite::test

/// The error's message must contain `part`; shows the message when it does not.
#define CHECK_ERROR(action, part)                                                                                      \
    do {                                                                                                               \
        const std::string cryolite_message = ::cryolite::test::error_of([&] { action; });                              \
        CAPTURE(cryolite_message);                                                                                     \
        CHECK(cryolite_message.find(part) != std::string::npos);                                                       \
    } while (false)
