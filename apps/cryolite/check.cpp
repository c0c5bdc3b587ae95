// cryolite check APP: the gradients of every layer against finite differences, by the program
// itself.

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "apps/cryolite/commands.h"
#include "apps/cryolite/programs.h"
#include "apps/cryolite/refusals.h"
#include "apps/cryolite/version.h"
#include "runtime/error.h"
#include "runtime/process.h"
#include "runtime/streams.h"

namespace cryolite {

int run_check(const std::vector<std::string> &arguments) {
    std::string name = "gpt", cache;
    std::vector<std::string> line(arguments.rbegin(), arguments.rend());
    CLI::App app{"Checks the gradients of every layer of a model against finite differences.",
                 "cryolite check"};
    app.set_version_flag("--version", "cryolite " CRYOLITE_VERSION);
    app.add_option("APP", name, "gpt, digits, ... or a .cpp of your own (gpt)");
    app.add_option("--cache", cache, "compiled programs ($XDG_CACHE_HOME/cryolite)")
        ->type_name("DIR");
    try {
        app.parse(line);
    } catch (const CLI::Success &e) {
        app.exit(e);
        throw;
    } catch (const CLI::ParseError &e) {
        refuse_line(e, "check");
    }
    const Program program = find_program(name, Cache(cache));
    if (program.path.empty()) fail("the check runs the program itself, and this build has no compiler: use ./cryolite check");
    ProcessOptions options{.argv = {program.path.string(), "--check"}};
    options.on_line = [](std::string_view text) {
        fmt::print("{}\n", text);
        std::fflush(stdout);
        return true;
    };
    const ProcessResult result = run_process(options);
    if (!result.errors.empty()) tell("{}", last_lines(result.errors, 16000));
    if (result.signal || result.limit)
        fail("the check of {} did not end: {}", name, how_it_ended(result));
    return result.status;
}

}  // namespace cryolite
