// Which flags an error of a model comes from.

#include "dsl/models/gpt.h"
#include "dsl/traced_model.h"
#include "generators/driver/bad_parameters.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

std::unique_ptr<Model> make_gpt() { return std::make_unique<Gpt>(); }

/// Fails whatever its parameters are.
struct Odd : TextModel {
    Tensor forward(Tensor) override { fail("[odd] never works"); }
};

/// The flags that building Gpt with `given` fails for.
std::string flags(decltype(Arguments::given) given) {
    Arguments::current() = {given, {}};
    const std::string error = error_of([] { traced(*make_gpt()); });
    Arguments::current() = {std::move(given), {}};
    const std::string found = compiler::bad_parameters(make_gpt, error);
    Arguments::current() = {};
    return found;
}

}  // namespace

TEST_CASE("parameters at fault: those whose default brings another error or none") {
    CHECK(flags({{"width", "85"}}) == "--width 85");
    CHECK(flags({{"heads", "4"}, {"layers", "2"}, {"width", "85"}}) == "--width 85");
    CHECK(flags({{"heads", "3"}, {"width", "100"}}) == "--heads 3, --width 100");
    CHECK(flags({{"heads", "7"}, {"width", "130"}}) == "--heads 7, --width 130");
}

TEST_CASE("parameters at fault: none where another error is told, or the defaults fail as well") {
    Arguments::current() = {{{"width", "85"}}, {}};
    CHECK(compiler::bad_parameters(make_gpt, "the disk is full").empty());
    Arguments::current() = {{{"context", "8"}}, {}};
    CHECK(compiler::bad_parameters([]() -> std::unique_ptr<Model> { return std::make_unique<Odd>(); },
                                   "[odd] never works")
              .empty());
    Arguments::current() = {};
}

}  // namespace cryolite::test
