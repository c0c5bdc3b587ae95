#include "apps/cryolite/inputs/init_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/step_questions.h"
#include "apps/cryolite/session/usage.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

using Parts = std::vector<std::string>;

/// OLD=NEW of --rename, as parts of a name between dots.
struct Rename {
    std::string text;
    Parts from, to;

    explicit Rename(const std::string &text) : text(text) {
        const size_t at = text.find('=');
        if (at != std::string::npos) from = parts(text.substr(0, at)), to = parts(text.substr(at + 1));
        if (from.empty()) fail_usage("--rename is {}, expected OLD=NEW", shown(text));
    }
    static Parts parts(const std::string &name) {
        Parts list;
        for (const std::string &part : list_items(name, '.'))
            if (!part.empty()) list.push_back(part);
        return list;
    }
    /// Replaces the parts everywhere in the name. Returns whether there were any.
    bool apply(Parts &name) const {
        bool any = false;
        for (auto at = name.begin(); (at = std::search(at, name.end(), from.begin(), from.end())) != name.end();) {
            at = name.insert(name.erase(at, at + long(from.size())), to.begin(), to.end()) + long(to.size());
            any = true;
        }
        return any;
    }
};

std::vector<Rename> renames_of(const TrainSettings &s) {
    std::vector<Rename> renames;
    if (s.rename != "none")
        for (const std::string &text : list_items(s.rename, ',')) renames.emplace_back(text);
    return renames;
}

/// Finds the model's names of the tensors in the file.
class Names {
public:
    Names(const TrainSettings &s, const Request &r)
        : weights_(r.program.description.weights), settings_(s), renames_(renames_of(s)) {}

    /// The model's name of a tensor in a file.
    std::string here(const std::string &name) const {
        Parts parts = Rename::parts(name);
        bool any = false;
        for (const Rename &r : renames_) any |= r.apply(parts);
        const std::string text = any ? fmt::format("{}", fmt::join(parts, ".")) : name;
        return text.starts_with(weights_.prefix) ? text.substr(weights_.prefix.size()) : text;
    }
    /// The same; empty: it is none of the model's weights.
    std::string weight(const std::string &name) const {
        const std::string own = here(name);
        const bool ignored = std::ranges::any_of(weights_.ignored, [&](auto &end) { return own.ends_with(end); });
        return ignored || (repeat() && weights_.repeats.contains(own)) ? "" : own;
    }
    /// Whether the model uses one tensor for several, so that some tensors of the file have to be equal to others.
    bool repeat() const {
        const auto at = settings_.params.find(weights_.repeats_where);
        return at == settings_.params.end() || at->second == "true";
    }
    void check_used(const TensorFiles &files) const {
        for (const Rename &r : renames_)
            if (std::ranges::none_of(files.tensors(), [&](const TensorFiles::Tensor &t) { return used(r, t.name()); }))
                fail_usage("--rename {}: no tensor name in {} has the part {} between dots; the first is {}", r.text,
                           files.path().string(), fmt::join(r.from, "."),
                           files.tensors().empty() ? "none" : files.tensors()[0].name());
    }

private:
    const WeightFiles &weights_;
    const TrainSettings &settings_;
    const std::vector<Rename> renames_;

    /// Whether a --rename changes a name, after the ones before it have.
    bool used(const Rename &wanted, const std::string &name) const {
        Parts parts = Rename::parts(name);
        for (const Rename &r : renames_)
            if (const bool any = r.apply(parts); &r == &wanted) return any;
        return false;
    }
};

/// The tensors of --init, by the model's names.
struct InitFile {
    const WeightFiles &weights;
    const TrainSettings &settings;
    const Request &request;
    const TensorFiles files;
    const Names names;
    std::map<std::string, const TensorFiles::Tensor *> tensors;

    InitFile(const TrainSettings &s, const Request &r)
        : weights(r.program.description.weights), settings(s), request(r), files(s.init), names(s, r) {
        for (const TensorFiles::Tensor &t : files.tensors()) tensors.emplace(names.here(t.name()), &t);
    }
    const TensorFiles::Tensor *find(const std::string &name) const {
        const auto at = tensors.find(name);
        return at == tensors.end() ? nullptr : at->second;
    }
    /// The extent that decides a parameter of the model, where the file has it.
    std::optional<int64_t> extent(const WeightFiles::Extent &e) const {
        const TensorFiles::Tensor *t = find(e.tensor);
        if (!t || t->entry->shape.size() < 2 || size_t(e.dimension) >= t->entry->shape.size()) return std::nullopt;
        return t->entry->shape[size_t(e.dimension)];
    }
    void check_extents() const {
        for (const WeightFiles::Extent &e : weights.extents) {
            const std::optional<int64_t> found = extent(e);
            if (e.decides || !found || *found == settings.param(e.param, 0)) continue;
            const TensorEntry &entry = *find(e.tensor)->entry;
            fail_usage("--init: {}: tensor '{}' has shape {}, for --{} {}, but this model has {}: give the same value",
                       settings.init.string(), entry.name, shape_text(entry.shape), e.param, *found,
                       settings.param(e.param, 0));
        }
    }
    void check_numbered() const {
        for (const WeightFiles::Numbered &n : weights.numbered) {
            auto there = [&](int i) {
                std::string name = n.tensor;
                name.replace(name.find('#'), 1, std::to_string(i));
                return find(name) != nullptr;
            };
            const int count = settings.param(n.param, 0);
            if (there(0) && (!there(count - 1) || there(count)))
                fail_usage("--init: {}: it does not have {} {}, as {}", settings.init.string(), count, n.param,
                           request.values.of_init(n.param)
                               ? "the config.json there says: the two do not belong together"
                               : fmt::format("this model does: give its own number with --{}", n.param));
        }
    }
    /// A tensor that repeats another one is not read, so it must not differ from that.
    void check_repeats() const {
        for (const auto &[name, of] : weights.repeats) {
            const TensorFiles::Tensor *one = find(name), *other = find(of);
            if (!names.repeat() || !one || !other) continue;
            if (one->entry->shape != other->entry->shape)
                fail_usage("--init: {}: {} has shape {}, and {} has {}, but this model uses one tensor for both",
                           settings.init.string(), name, shape_text(one->entry->shape), of,
                           shape_text(other->entry->shape));
            if (values(*one) != values(*other))
                fail_usage("--init: {}: {} and {} differ, but this model uses one tensor for both",
                           settings.init.string(), name, of);
        }
    }
    /// Each weight of the model is there, of its shape, and nothing else.
    void check_weights(const std::vector<TensorSpec> &expected) const {
        find_weights(
            expected, files, [&](const std::string &name) { return names.weight(name); },
            [&](const std::string &parameter) { return file_parts(parameter, weights, settings); });
    }

private:
    static std::vector<float> values(const TensorFiles::Tensor &t) {
        std::vector<float> v(t.entry->elements());
        t.read_float32(v);
        return v;
    }
};

constexpr std::string_view about_init = "--init: ";

}  // namespace

void check_renames(const TrainSettings &s) {
    const std::vector<Rename> renames = renames_of(s);
    if (!renames.empty() && s.init.empty()) fail_usage("--rename is for the tensors of --init, which is not given");
}

std::optional<int> param_of_init(const TrainSettings &s, const Request &r, const std::string &param) {
    if (s.init.empty()) return std::nullopt;
    return usage_errors(about_init, [&]() -> std::optional<int> {
        const InitFile file(s, r);
        for (const WeightFiles::Extent &e : file.weights.extents)
            if (const auto found = file.extent(e); found && e.decides && e.param == param)
                return int(std::min<int64_t>(*found, 1 << 24));
        return std::nullopt;
    });
}

void check_init(const TrainSettings &s, const Request &r) {
    if (s.init.empty()) return;
    std::optional<InitFile> file;
    usage_errors(about_init, [&] {
        file.emplace(s, r);
        file->names.check_used(file->files);
        file->check_extents(), file->check_numbered(), file->check_repeats();
    });
    if (r.program.path.empty()) return;  // nothing is compiled here: begin_weights is soon enough
    const std::vector<TensorSpec> weights = model_weights(r.program, bundle_request(s));
    usage_errors(about_init, [&] { file->check_weights(weights); });
}

void begin_weights(Trainer &trainer, const TrainSettings &s, const Request &r) {
    if (s.init.empty()) return trainer.initialise(s.seed);
    const Names names(s, r);
    usage_errors(about_init,
                 [&] { trainer.load_parameters(s.init, [&](const std::string &name) { return names.weight(name); }); });
}

std::vector<TensorPart> file_parts(const std::string &parameter, const WeightFiles &weights, const TrainSettings &s) {
    for (const WeightFiles::Packed &packed : weights.packed) {
        const size_t at = parameter.find(packed.name);
        if (at == std::string::npos) continue;
        std::vector<TensorPart> parts;
        for (const auto &[name, param] : packed.parts) {
            parts.push_back({parameter, s.param(param, 1)});
            parts.back().name.replace(at, packed.name.size(), name);
        }
        return parts;
    }
    return {};
}

}  // namespace cryolite
