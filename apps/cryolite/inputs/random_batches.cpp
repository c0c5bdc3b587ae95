#include "apps/cryolite/inputs/random_batches.h"

#include "runtime/system/rng.h"

namespace cryolite {

namespace {

class RandomBatches : public BatchSource {
public:
    RandomBatches(const Plan &plan, uint64_t seed)
        : tokens_(plan.task == "tokens"),
          numbers_(plan.buffers.at(size_t(plan.find(Role::input, "targets"))).type == "float32"),
          inputs_(size_t(plan.buffers.at(size_t(plan.find(Role::input, plan.task))).elements() * plan.batch_parts())),
          targets_(size_t(plan.buffers.at(size_t(plan.find(Role::input, "targets"))).elements() * plan.batch_parts())),
          classes_(uint64_t(plan.buffers.at(size_t(plan.output)).shape.at(0))), seed_(seed) {}

    void allocate(Batch &batch) const override {
        if (tokens_)
            batch.tokens.resize(inputs_);
        else
            batch.features.resize(inputs_);
        if (numbers_)
            batch.numbers.resize(targets_);
        else
            batch.targets.resize(targets_);
    }
    void fill(uint64_t index, Batch &batch) override {
        const Rng inputs(seed_, "bench.inputs"), targets(seed_, "bench.targets");
        for (size_t i = 0; i < inputs_; i++) {
            const uint64_t at = index * inputs_ + i;
            if (tokens_)
                batch.tokens[i] = int32_t(inputs.below(classes_, at));
            else
                batch.features[i] = float(inputs.uniform(at));
        }
        for (size_t i = 0; i < targets_; i++) {
            const uint64_t at = index * targets_ + i;
            if (numbers_)
                batch.numbers[i] = float(targets.uniform(at));
            else
                batch.targets[i] = int32_t(targets.below(classes_, at));
        }
    }

private:
    bool tokens_, numbers_;
    size_t inputs_, targets_;
    uint64_t classes_, seed_;
};

}  // namespace

std::unique_ptr<BatchSource> random_batches(const Plan &plan, uint64_t seed) {
    return std::make_unique<RandomBatches>(plan, seed);
}

}  // namespace cryolite
