#include "apps/cryolite/inputs/init_file.h"

#include <algorithm>

#include "runtime/formats/safetensors.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

const WeightFiles &weights_of(const Request &r) { return r.program.description.weights; }

/// By the name that the model has for it, or with the prefix that other programs write; null: there is none.
const TensorEntry *find(const SafetensorsFile &file, const WeightFiles &w, const std::string &name) {
    const TensorEntry *entry = file.find(name);
    return entry || w.prefix.empty() ? entry : file.find(w.prefix + name);
}

/// The extent that decides a parameter of the model, where the file has it.
std::optional<int64_t> extent(const SafetensorsFile &file, const WeightFiles &w, const WeightFiles::Extent &e) {
    const TensorEntry *entry = find(file, w, e.tensor);
    if (!entry || entry->shape.size() < 2 || size_t(e.dimension) >= entry->shape.size()) return std::nullopt;
    return entry->shape[size_t(e.dimension)];
}

void check_extents(const SafetensorsFile &file, const TrainSettings &s, const WeightFiles &w) {
    for (const WeightFiles::Extent &e : w.extents) {
        const std::optional<int64_t> found = extent(file, w, e);
        if (e.decides || !found || *found == s.param(e.param, 0)) continue;
        const TensorEntry *entry = find(file, w, e.tensor);
        fail_usage("--init: {}: tensor '{}' has shape {}: its model has --{} {}, this one {}", s.init.string(),
                   entry->name, shape_text(entry->shape), e.param, *found, s.param(e.param, 0));
    }
}

void check_numbered(const SafetensorsFile &file, const TrainSettings &s, const WeightFiles &w) {
    for (const WeightFiles::Numbered &n : w.numbered) {
        auto there = [&](int i) {
            std::string name = n.tensor;
            name.replace(name.find('#'), 1, std::to_string(i));
            return find(file, w, name) != nullptr;
        };
        const int count = s.param(n.param, 0);
        if (there(0) && (!there(count - 1) || there(count)))
            fail_usage("--init: {}: its model has not the {} {} of this one; give its own number with --{}",
                       s.init.string(), count, n.param, n.param);
    }
}

/// One that only repeats another one would be lost if it did not.
void check_repeats(const SafetensorsFile &file, const TrainSettings &s, const WeightFiles &w) {
    for (const auto &[name, of] : w.repeats) {
        const TensorEntry *one = file.find(name), *other = find(file, w, of);
        if (!one || !other) continue;
        if (one->shape != other->shape || file.read_float32(one->name) != file.read_float32(other->name))
            fail_usage("--init: {}: {} is not {}: this model uses one tensor for both", s.init.string(), name, of);
    }
}

/// The model's name of a tensor in a file; empty: it is none of its weights.
std::string own_name(const WeightFiles &w, const std::string &name) {
    if (w.repeats.contains(name) ||
        std::ranges::any_of(w.ignored, [&](const std::string &end) { return name.ends_with(end); }))
        return "";
    return name.starts_with(w.prefix) ? name.substr(w.prefix.size()) : name;
}

/// A file that does not fit is a flag that does not.
template <typename Work> void about_init(const Work &work) {
    try {
        work();
    } catch (const UsageError &) {
        throw;
    } catch (const Error &e) {
        throw UsageError(fmt::format("--init: {}", e.what()));
    }
}

}  // namespace

std::optional<int> param_of_init(const TrainSettings &s, const Request &r, const std::string &param) {
    if (s.init.empty()) return std::nullopt;
    const SafetensorsFile file(s.init);
    for (const WeightFiles::Extent &e : weights_of(r).extents)
        if (const auto found = extent(file, weights_of(r), e); found && e.decides && e.param == param)
            return int(std::min<int64_t>(*found, 1 << 24));
    return std::nullopt;
}

void check_init(const TrainSettings &s, const Request &r) {
    if (s.init.empty()) return;
    about_init([&] {
        const SafetensorsFile file(s.init);
        check_extents(file, s, weights_of(r)), check_numbered(file, s, weights_of(r)),
            check_repeats(file, s, weights_of(r));
    });
}

void begin_weights(Trainer &trainer, const TrainSettings &s, const Request &r) {
    if (s.init.empty()) return trainer.initialise(s.seed);
    about_init([&] {
        trainer.load_parameters(s.init, [&](const std::string &name) { return own_name(weights_of(r), name); });
    });
}

}  // namespace cryolite
