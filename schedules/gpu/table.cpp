#include "schedules/table.h"

#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

const LoopTable &loop_table() {
    static const LoopTable table = {
        .layers = {{"Linear", {"gpu product", product}},
                   {"TiedHead", {"gpu product", product}},
                   {"CausalAttention", {"gpu attention", attention}},
                   {"Attention", {"gpu attention", attention}},
                   {"LayerNorm", {"gpu rowwise", rowwise}},
                   {"RMSNorm", {"gpu rowwise", rowwise}},
                   {"CrossEntropy", {"gpu row_losses", row_losses}},
                   {"Accuracy", {"gpu row_losses", row_losses}},
                   {"Huber", {"gpu row_losses", row_losses}},
                   {"BinaryCrossEntropy", {"gpu row_losses", row_losses}},
                   {"Distillation", {"gpu row_losses", row_losses}},
                   {"WeightedRows", {"gpu weighted_rows", plain_loops}},
                   {"Documents", {"gpu documents", plain_loops}},
                   {"Embedding", {"gpu pointwise", plain_loops}},
                   {"Positions", {"gpu pointwise", plain_loops}},
                   {"Conv2D", {"gpu windows", windows}},
                   {"AveragePool", {"gpu windows", sum_in_thread}},
                   {"MaxPool", {"gpu windows", sum_in_thread}},
                   {"AveragePool2D", {"gpu windows", sum_in_thread}},
                   {"MaxPool2D", {"gpu windows", sum_in_thread}},
                   {"MeanPool", {"gpu windows", sum_in_thread}},
                   {"Patches", {"gpu pointwise", plain_loops}},
                   {"Concat", {"gpu pointwise", plain_loops}},
                   {"Slice", {"gpu pointwise", plain_loops}},
                   {"Permute", {"gpu pointwise", plain_loops}},
                   {"Reduce", {"gpu reduce", sum_in_thread}},
                   {"Broadcast", {"gpu reduce", sum_in_thread}},
                   {"LinearRecurrence", {"gpu scan", plain_loops}},
                   {"NearestResize", {"gpu windows", sum_in_thread}},
                   {"BilinearResize", {"gpu windows", sum_in_thread}},
                   {"ConvTranspose2D", {"gpu windows", windows}},
                   {"GroupNorm", {"gpu group_norm", plain_loops}},
                   {"BatchNorm", {"gpu batch_norm", plain_loops}},
                   {"RescaledChannels", {"gpu batch_norm", plain_loops}}},
        .sums = {{"Linear", {"gpu sum_rows", sum_in_thread}},
                 {"Conv2D", {"gpu sum_rows", sum_in_thread}},
                 {"ConvTranspose2D", {"gpu sum_rows", sum_in_thread}},
                 {"Positions", {"gpu sum_rows", sum_in_thread}},
                 {"LayerNorm", {"gpu sums", sums_of_normalised_rows}},
                 {"GroupNorm", {"gpu sums", plain_loops}},
                 {"BatchNorm", {"gpu sums", plain_loops}},
                 {"RMSNorm", {"gpu sums", sums_of_normalised_rows}},
                 {"Embedding", {"gpu scatter", scatter}}},
        .ghost_norm = {"gpu ghost_norm", ghost_norm},
        .squared_norm = {"gpu squared_norm", squared_norm},
        .pointwise = {"gpu pointwise", pointwise},
        .rowwise = {"gpu rowwise", rowwise},
        .gains_of_rows = {"gpu sums", sums_of_normalised_rows},
        .contraction = {"plain loops", plain_loops},
        .sum_of_rows = {"plain loops", plain_loops},
        .plain = {"plain loops", plain_loops},
        .automatic = false,
    };
    return table;
}

}  // namespace cryolite::gpu
