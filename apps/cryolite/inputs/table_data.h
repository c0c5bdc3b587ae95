#pragma once
// The data of models of rows: tables and images.

#include "apps/cryolite/inputs/run_data.h"

namespace cryolite {

/// The table --data, a part of it held out, or that of --val. Sets `classes`, where it was not given.
RunData open_table(TrainSettings &settings, const Request &request);

/// A folder of images: it has those that are held out, too.
RunData open_images(TrainSettings &settings, const Request &request);

/// Throws UsageError where rows are not as wide as the model reads or predicts them. That depends on its parameters:
/// the program says it, before anything is compiled.
void check_columns(const RunData &data, const TrainSettings &settings, const Request &request);

}  // namespace cryolite
