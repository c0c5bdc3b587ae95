#pragma once
// Judges a case: compiles it, trains it, and compares it with its reference.

#include <map>

#include "apps/cryolite/fuzz/compare_training.h"
#include "runtime/io/files.h"

namespace cryolite {

struct FuzzVerdict {
    std::string finding;  ///< what is wrong, in words; empty: nothing
    FuzzCase made = {};   ///< the case without the lines that were refused, and without a budget that cannot be met
    FuzzDistance distance = {};
    int64_t bytes = 0, arena = 0;  ///< bytes: of all of its memory; arena: of its activations
};

class FuzzTrials {
public:
    /// Works in this folder. `self`: this command, `program`: bin/fuzz_model.
    FuzzTrials(fs::path folder, fs::path self, fs::path program)
        : folder_(std::move(folder)), self_(std::move(self)), program_(std::move(program)) {}

    /// Judges a case. Errors: Interrupted; what keeps any case from being tried, such as a full disk.
    FuzzVerdict run(FuzzCase c);
    /// The case as a program in C++.
    std::string program_of(const FuzzCase &c) const;

    /// Why lines and budgets of the cases so far were refused, and how often.
    const std::map<std::string, int> &refused() const { return refused_; }
    /// Multiplies what counts as too far.
    double tolerance = 1;

private:
    const fs::path folder_, self_, program_;
    std::map<std::string, int> refused_;
    std::map<std::string, std::string> references_;              ///< answers, by arguments and input
    std::map<std::string, std::pair<int64_t, int64_t>> memory_;  ///< by case: of a step without a budget, of its arena

    std::vector<std::string> model_arguments(const FuzzCase &c, int batch) const;
    std::string compile(FuzzCase &c, const fs::path &bundle, int64_t budget);
    bool refuse(FuzzCase &c, int64_t &budget, const std::string &words);
    int64_t budget_of(const FuzzCase &c);
    const std::string &reference(const FuzzCase &c, const std::string &initial);
};

}  // namespace cryolite
