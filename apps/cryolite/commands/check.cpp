// cryolite check APP: the gradients of every layer against finite differences, by the program itself, on random
// numbers. With --data, also whether the data fit the model, which has their vocabulary or classes then.

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/inputs/run_data.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

/// The parameters that were given, checked, and those that --data decides. The program knows the others, as their
/// defaults may depend on these.
std::map<std::string, std::string> given_params(const Request &r) {
    TrainSettings s = understand(r);
    const std::map<std::string, std::string> before = s.params;
    const auto val = r.values.all().find("val");
    if (s.data.empty() && val != r.values.all().end() && val->second.origin == Origin::command_line)
        fail_usage("--val is read beside --data, which was not given");
    if (!s.data.empty()) {
        const RunData data = open_data(s, r);
        tell("data: {}: {}", data.name, data.about);
    }
    std::erase_if(s.params, [&](auto &p) {
        const auto was = before.find(p.first);
        return !r.values.given(p.first) && was != before.end() && was->second == p.second;
    });
    return s.params;
}

}  // namespace

int run_check(const std::vector<std::string> &arguments) {
    const Request request = read_request(Command::check, arguments);
    const Program &program = request.program;
    if (program.path.empty())
        fail("the check runs the program itself, and this build has no compiler: use ./cryolite check");
    ProcessOptions options{.argv = {program.path.string(), "--check"},
                           .program = program.file ? program.file->descriptor() : -1};
    add_params(options.argv, given_params(request));
    options.on_line = [](std::string_view text) {
        fmt::print("{}\n", text);
        std::fflush(stdout);
        return true;
    };
    const ProcessResult result = run_process(options);
    if (!result.errors.empty()) tell("{}", last_lines(result.errors, 16000));
    if (result.signal || result.limit) fail("the check of {} did not end: {}", request.app, how_it_ended(result));
    return result.status;
}

}  // namespace cryolite
