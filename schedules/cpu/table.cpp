#include "schedules/table.h"

#include "schedules/cpu/fallback.h"
#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

const LoopTable &loop_table() {
    static const LoopTable table = {
        .layers = {{"Linear", {"product", product}},
                   {"TiedHead", {"product", product}},
                   {"CausalAttention", {"attention", attention}},
                   {"Attention", {"attention", attention}},
                   {"LayerNorm", {"rowwise", rowwise}},
                   {"RMSNorm", {"rowwise", rowwise}},
                   {"CrossEntropy", {"row_losses", row_losses}},
                   {"Accuracy", {"row_losses", row_losses}},
                   {"Huber", {"row_losses", row_losses}},
                   {"BinaryCrossEntropy", {"row_losses", row_losses}},
                   {"Distillation", {"row_losses", row_losses}},
                   {"MeanSquaredError", {"squared_error", plain_loops}},
                   {"WeightedRows", {"weighted_rows", weighted_rows}},
                   {"Documents", {"documents", plain_loops}},
                   {"Embedding", {"pointwise", pointwise}},
                   {"Positions", {"pointwise", pointwise}},
                   {"Conv2D", {"convolution", convolution}},
                   {"AveragePool", {"windows", windows}},
                   {"MaxPool", {"windows", windows}},
                   {"AveragePool2D", {"windows", windows}},
                   {"MaxPool2D", {"windows", windows}},
                   {"MeanPool", {"windows", windows}},
                   {"Patches", {"pointwise", pointwise}},
                   {"Concat", {"pointwise", pointwise}},
                   {"Slice", {"pointwise", pointwise}},
                   {"Permute", {"pointwise", pointwise}},
                   {"Reduce", {"reduce", reduce}},
                   {"Broadcast", {"reduce", reduce}},
                   {"LinearRecurrence", {"scan", scan}},
                   {"NearestResize", {"windows", windows}},
                   {"BilinearResize", {"windows", windows}},
                   {"ConvTranspose2D", {"convolution", convolution}},
                   {"GroupNorm", {"group_norm", group_norm}},
                   {"BatchNorm", {"batch_norm", batch_norm}},
                   {"RescaledChannels", {"batch_norm", batch_norm}}},
        .sums = {{"Linear", {"sum_rows", sum_rows}},
                 {"Conv2D", {"sum_rows", sum_rows}},
                 {"ConvTranspose2D", {"sum_rows", sum_rows}},
                 {"Positions", {"sum_rows", sum_rows}},
                 {"LayerNorm", {"sum_normalised_rows", sum_normalised_rows}},
                 {"GroupNorm", {"sum_normalised_images", sum_normalised_images}},
                 {"BatchNorm", {"batch_norm", batch_norm}},
                 {"RMSNorm", {"sum_normalised_rows", sum_normalised_rows}},
                 {"Embedding", {"scatter", scatter}}},
        .ghost_norm = {"ghost_norm", ghost_norm},
        .squared_norm = {"squared_norm", squared_norm},
        .pointwise = {"pointwise", pointwise},
        .rowwise = {"rowwise", rowwise},
        .gains_of_rows = {"sum_normalised_rows", sum_normalised_rows},
        .contraction = {"contraction", contraction},
        .sum_of_rows = {"sum_rows", sum_rows},
        .plain = {"plain loops", plain_loops},
        .tiled = {"tiled", tiled},
        .automatic = true,
    };
    return table;
}

}  // namespace cryolite::cpu
