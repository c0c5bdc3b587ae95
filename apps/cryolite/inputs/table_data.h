#pragma once
// The data of models of rows: tables and images.

#include "apps/cryolite/inputs/run_data.h"

namespace cryolite {

/// Opens the table --data. A part of it is held out, or the table --val. Sets `classes`, if it was not given.
RunData open_table(TrainSettings &settings, const Request &request);

/// Opens a folder of images, which has those that are held out, too.
RunData open_images(TrainSettings &settings, const Request &request);

/// Throws UsageError if rows do not have as many features as the model reads, or targets as it predicts. These depend
/// on its parameters, so the program is asked for them, before anything is compiled.
void check_columns(const RunData &data, const TrainSettings &settings, const Request &request);

}  // namespace cryolite
