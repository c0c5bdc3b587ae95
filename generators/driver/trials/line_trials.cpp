#include "generators/driver/trials/line_trials.h"

#include <filesystem>

#include "bundle/plan_json.h"
#include "generators/codegen/kernel_store.h"
#include "generators/passes/moves/step_moves.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

constexpr std::string_view nearest = "the nearest legal line is ";

/// The nearest legal line, with which a refusal ends; empty: it names none.
std::string nearest_line(const std::string &refused) {
    const size_t at = refused.rfind(nearest);
    if (at == std::string::npos) return "";
    const std::string text = refused.substr(at + nearest.size());
    return text.substr(0, text.find_first_of("\n;"));
}

/// A refusal without its beginning: the line, and where it is written.
std::string reason(const std::string &refused) {
    constexpr std::string_view words = " is refused: ";
    const size_t at = refused.find(words);
    return at == std::string::npos ? refused : refused.substr(at + words.size());
}

/// The message of what `act` throws; empty: it throws nothing.
std::string why_not(const std::function<void()> &act) {
    try {
        act();
        return "";
    } catch (const Halide::Error &e) {
        return e.what();
    } catch (const std::exception &e) {
        return e.what();
    }
}

}  // namespace

void try_lines(StepProgram &p, const std::string &request, const std::function<Plan(const std::string &)> &plan_with,
               const std::string &folder, const std::function<void(const json &)> &tell) {
    const auto without = json::parse(request).at("without").get<std::set<std::string>>();
    std::filesystem::create_directories(folder);
    std::vector<StepMove> moves = moves_of(p);
    std::set<std::string> seen = without;
    for (size_t i = 0; i < moves.size(); i++) {
        const StepMove move = moves[i];
        if (!seen.insert(move.line).second) continue;
        json line = {{"line", move.line}, {"bytes", move.bytes}};
        const std::string file = fmt::format("{}/{}.json", folder, i);
        const std::string refused = why_not([&] { write_whole(file, plan_text(plan_with(move.line))); });
        if (refused.empty())
            line["plan"] = file;
        else
            line["refused"] = reason(refused);
        if (const std::string legal = nearest_line(refused); !legal.empty()) moves.push_back({legal, 0});
        tell(line);
    }
}

}  // namespace cryolite::compiler
