#pragma once
// One random program: the choices that its model and its schedule are made of, its sizes, and the settings of its
// step.

#include <cstdint>
#include <string>
#include <vector>

#include "bundle/step_config.h"

namespace cryolite {

/// Groups of numbers from 0 to 255, from which the program bin/fuzz_model makes a model (generators/fuzz).
using FuzzChoices = std::vector<std::vector<int>>;

struct FuzzCase {
    FuzzChoices choices = {{}};
    int kind = 1;  ///< 1: of tokens, 2: of a table with labels, 3: of a table with numbers to predict
    int examples = 1, context = 2, vocab = 5, columns = 3;  ///< examples: of a step, over micro-batches and workers
    int memory = 0;  ///< per cent of the activations' memory that a budget takes away; 0: there is none
    int data = 1;    ///< seed of the weights and of the numbers that it is trained with
    StepConfig step = {.optimizer = "sgd", .update = "separate", .recompute = "none"};
    std::vector<int> without = {};  ///< lines of its schedule that are left out, from 1 on

    int micro_batch() const { return examples / step.accumulate / step.workers; }
    bool operator==(const FuzzCase &) const = default;
};

/// "choices=1.0/3.2 examples=2 update=backward": all that differs from the simplest case.
std::string text_of(const FuzzCase &c);
/// Errors: no such setting, a value that it cannot have, examples that micro-batches and workers cannot share.
FuzzCase read_fuzz_case(const std::string &text);
/// "1.0.3/4.2"
std::string choices_text(const FuzzChoices &choices);

/// Model number `n` of this seed, with the settings that decide what its training computes: all variants share them.
FuzzCase draw_model(uint64_t seed, uint64_t n);
/// Variant number `n` of a model: it has placements, formats, micro-batches, workers and lines of its own.
FuzzCase draw_variant(const FuzzCase &model, uint64_t seed, uint64_t n);

}  // namespace cryolite
