#pragma once
// The data of a run, opened and checked before anything is compiled: it decides the vocabulary.

#include <memory>
#include <optional>

#include "apps/cryolite/session/settings.h"
#include "runtime/data/loader.h"
#include "runtime/data/text.h"

namespace cryolite {

struct RunData {
    std::string about;                           ///< one line for people
    std::string warning;                         ///< what is odd about the data; `open_data` prints it
    std::string name;                            ///< of the data file, or "random tokens"
    std::string digest;                          ///< SHA-256: a resumed run must see the same
    std::shared_ptr<const Tokenizer> tokenizer;  ///< null: tokens without a text, or a table
    bool sample = false;                         ///< it is a text: a sample is generated at the end
    TokenStream train, validation;               ///< of text models
    Table rows, held_out;                        ///< of models of tables
    float scale = 1;                             ///< features are multiplied by it
    std::vector<std::string> class_names;        ///< of images whose classes have any

    bool has_validation() const { return !validation.empty() || held_out.rows() > 0; }
    /// The micro-batches of the run; `settings` has the extents.
    std::unique_ptr<BatchSource> source(const TrainSettings &settings) const;
};

/// Opens --data (or the embedded data) and --val, and sets those of the model's parameters that
/// they or --init decide and that were not given: vocab, classes, positions. Warns of labels that do not occur. Throws
/// UsageError: whatever is wrong with the files, or with the parameters for them, and columns of a table that are not
/// those that the model reads, or predicts.
RunData open_data(TrainSettings &settings, const Request &request);

/// For commands that show or compile a step and train nothing: sets the same parameters, and reads data only if a
/// parameter depends on them.
RunData data_of_step(TrainSettings &settings, const Request &request);

/// For commands that time steps, without --data: sets the same parameters. The tokens or rows are random.
RunData random_data(TrainSettings &settings, const Request &request);

/// A file of the checkout or the installation, such as embedded data. Errors: it is not there.
fs::path source_path(const std::string &path);

}  // namespace cryolite
