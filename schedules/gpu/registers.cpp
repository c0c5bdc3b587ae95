#include "schedules/gpu/registers.h"

#include <map>
#include <optional>

#include "schedules/lets.h"

namespace cryolite::gpu {

namespace {

using namespace Halide;
using namespace Halide::Internal;

/// Where an access begins, and how many elements from there on it has; 0: they are not neighbours.
std::pair<Expr, int> begin_of(const Expr &index) {
    if (index.type().is_scalar()) return {index, 1};
    const auto *ramp = index.as<Ramp>();
    if (!ramp || !is_const_one(ramp->stride) || !ramp->base.type().is_scalar()) return {index, 0};
    return {ramp->base, ramp->lanes};
}

/// The elements of an array that are used, by their distance from the one that is used first.
class Uses : public WithLets {
public:
    explicit Uses(const std::string &array) : array(array) {}

    std::map<int64_t, int> place;  ///< among those that are kept
    bool constant = true;

    /// The begin of an access as its distance from the first one.
    std::optional<int64_t> distance(const Expr &begin, const Lets &around) {
        const Expr at = known(around, begin);
        if (!first.defined()) first = at;
        return as_const_int(simplify(at - first));
    }

private:
    const std::string array;
    Expr first;

    using WithLets::visit;
    void add(const Expr &index) {
        const auto [begin, lanes] = begin_of(index);
        const auto d = lanes ? distance(begin, lets) : std::nullopt;
        constant &= d.has_value();
        for (int64_t l = 0; d && l < lanes; l++) place[*d + l] = 0;
    }
    Expr visit(const Load *op) override {
        if (op->name == array) add(op->index);
        return IRMutator::visit(op);
    }
    Stmt visit(const Store *op) override {
        if (op->name == array) add(op->index);
        return IRMutator::visit(op);
    }
};

class Renumber : public WithLets {
public:
    Renumber(const std::string &array, Uses &uses) : array(array), uses(uses) {}

private:
    const std::string array;
    Uses &uses;

    using WithLets::visit;
    Expr place(const Expr &index) {
        const auto [begin, lanes] = begin_of(index);
        const Expr at = uses.place.at(*uses.distance(begin, lets));
        return lanes == 1 ? at : Ramp::make(at, 1, lanes);
    }
    Expr visit(const Load *op) override {
        if (op->name != array) return IRMutator::visit(op);
        return Load::make(op->type, op->name, place(op->index), op->image, op->param, mutate(op->predicate), {});
    }
    Stmt visit(const Store *op) override {
        if (op->name != array) return IRMutator::visit(op);
        return Store::make(op->name, mutate(op->value), place(op->index), op->param, mutate(op->predicate), {});
    }
};

class OwnElements : public IRMutator {
    using IRMutator::visit;
    Stmt visit(const Allocate *op) override {
        const Stmt body = mutate(op->body);
        if (op->memory_type == MemoryType::Register) {
            Uses uses(op->name);
            uses.mutate(body);
            if (uses.constant) {
                int n = 0;
                for (auto &[distance, place] : uses.place) place = n++;
                return Allocate::make(op->name, op->type, op->memory_type, {n}, op->condition,
                                      Renumber(op->name, uses).mutate(body));
            }
        }
        return Allocate::make(op->name, op->type, op->memory_type, op->extents, op->condition, body, op->new_expr,
                              op->free_function, op->padding);
    }
};

}  // namespace

void own_elements(Pipeline &p) { p.add_custom_lowering_pass(new OwnElements); }

}  // namespace cryolite::gpu
