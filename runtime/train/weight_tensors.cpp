#include "runtime/train/weight_tensors.h"

#include <algorithm>
#include <map>

namespace cryolite {

namespace {

/// The tensors of a file by the model's names for them; each is taken once.
class NamedTensors {
public:
    NamedTensors(const TensorFiles &files, const TensorNames &names) : files_(files) {
        for (const TensorFiles::Tensor &t : files.tensors()) {
            const std::string name = names(t.name());
            if (name.empty()) continue;
            if (const auto [other, fresh] = left_.emplace(name, &t); !fresh)
                fail_about(t, "is in the file under two names: '{}' is the model's '{}', too", other->second->name(),
                           name);
        }
    }
    bool has(const std::string &name) const { return left_.contains(name); }
    /// Null: there is none.
    const TensorFiles::Tensor *take(const std::string &name) {
        const auto node = left_.extract(name);
        return node ? node.mapped() : nullptr;
    }
    /// The first of those that nobody took, and the model's name for it; null: none is left.
    std::pair<const TensorFiles::Tensor *, std::string> left() const {
        for (const TensorFiles::Tensor &t : files_.tensors())
            for (const auto &[name, tensor] : left_)
                if (tensor == &t) return {tensor, name};
        return {};
    }

private:
    const TensorFiles &files_;
    std::map<std::string, const TensorFiles::Tensor *> left_;
};

}  // namespace

std::vector<TensorSpec> tensors_of(const TensorSpec &parameter, const TensorParts &parts_of) {
    const std::vector<TensorPart> parts = parts_of ? parts_of(parameter.name) : std::vector<TensorPart>{};
    if (parts.empty()) return {parameter};
    const TensorShape &whole = parameter.shape;
    int64_t total = 0;
    for (const TensorPart &p : parts) total += p.share;
    if (whole.empty() || total < 1 || whole[0] % total)
        fail("'{}' of shape {} cannot be divided into the {} tensors that files store it as", parameter.name,
             shape_text(whole), parts.size());
    std::vector<TensorSpec> specs;
    for (const TensorPart &p : parts) {
        specs.push_back({p.name, parameter.dtype, whole});
        specs.back().shape[0] = whole[0] / total * p.share;
    }
    return specs;
}

std::vector<std::vector<TensorFiles::Tensor>> find_weights(const std::vector<TensorSpec> &parameters,
                                                           const TensorFiles &files, const TensorNames &names,
                                                           const TensorParts &parts) {
    NamedTensors tensors(files, names);
    std::vector<std::vector<TensorFiles::Tensor>> found;
    std::optional<TensorSpec> missing;
    for (const TensorSpec &parameter : parameters) {
        found.emplace_back();
        for (const TensorSpec &part :
             tensors.has(parameter.name) ? std::vector{parameter} : tensors_of(parameter, parts)) {
            const TensorFiles::Tensor *t = tensors.take(part.name);
            if (!t && !missing) missing = part;
            if (!t) continue;
            if (t->entry->shape != part.shape)
                fail_about(*t,
                           "has shape {}, the model expects {}; check the model's sizes, such as --width, or those in "
                           "the config.json beside it",
                           shape_text(t->entry->shape), shape_text(part.shape));
            found.back().push_back(*t);
        }
    }
    if (const auto &[t, name] = tensors.left(); t)
        fail_about(*t, "{}is not a parameter of this model{}",
                   name == t->name() ? "" : fmt::format("has the name '{}' here, which ", name),
                   missing ? fmt::format(", whose '{}' of shape {} is missing there", missing->name,
                                         shape_text(missing->shape))
                           : "");
    if (missing)
        fail("{}: tensor '{}' of shape {} is missing; take a file of all the model's weights", files.path().string(),
             missing->name, shape_text(missing->shape));
    return found;
}

}  // namespace cryolite
