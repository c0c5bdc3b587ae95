#include "runtime/exec/exchanges.h"

#include <algorithm>

#include "runtime/exec/order/touched.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// Every transfer costs some microseconds, however small it is, so fewer bytes wait until more have gathered.
constexpr int64_t worth_a_transfer = int64_t(64) << 10;

using ExchangeParts = std::vector<Exchange::Part>;

int64_t bytes_of_parts(const ExchangeParts &parts) {
    int64_t all = 0;
    for (const Exchange::Part &p : parts) all += p.bytes;
    return all;
}

/// Whether all workers have a copy of what the owner computes. Optimizer state stays with its owner.
bool goes_to_all(const PlanBuffer &b) {
    return b.role == Role::parameter || b.role == Role::master_low || b.role == Role::master || b.role == Role::norms;
}

class Exchanges {
public:
    Exchanges(const Plan &plan, const std::vector<PlanCall> &calls) : plan_(plan), calls_(calls) {}

    std::vector<Exchange> list() && {
        for (at_ = 0; at_ < calls_.size(); at_++) add(calls_[at_]);
        put(sums_), put(results_);
        return std::move(list_);
    }

private:
    const Plan &plan_;
    const std::vector<PlanCall> &calls_;
    size_t at_ = 0;
    std::vector<Exchange> list_;
    ExchangeParts sums_, results_;  ///< not in the list yet

    void add(const PlanCall &c) {
        check(c);
        const std::vector<Touched> touched = touched_by(plan_, c);
        const bool adds = c.sum > 0;
        const bool continues_sum = adds && !sums_.empty() && sums_.back().buffer == c.args[0].buffer;
        if (!continues_sum && !sums_may_wait()) put(sums_);
        if (!results_.empty() &&
            (touch(results_, touched) || (bytes_of_parts(results_) >= worth_a_transfer && !continues(c))))
            put(results_);
        if (adds) {
            sums_.push_back({TransferKind::reduce, c.worker, c.args[0].buffer,
                             c.args[0].offset * int64_t(sizeof(float)), c.sum * int64_t(sizeof(float))});
            return;
        }
        for (Exchange &e : list_)
            if (e.before == calls_.size() && touch(e.parts, touched)) e.before = at_;
        for (size_t i = 0; c.worker >= 0 && i < c.args.size(); i++) {
            const PlanBuffer &b = plan_.buffers[size_t(c.args[i].buffer)];
            if (plan_.writes(c, i) && goes_to_all(b))
                results_.push_back({TransferKind::broadcast, c.worker, c.args[i].buffer,
                                    c.args[i].offset * b.element_bytes(), plan_.elements(c, i) * b.element_bytes()});
        }
    }

    /// Whether the sums that are not in the list yet are small, and more follow before a call touches them.
    bool sums_may_wait() const {
        if (bytes_of_parts(sums_) >= worth_a_transfer) return false;
        for (size_t i = at_; i < calls_.size(); i++) {
            if (calls_[i].sum > 0) return true;
            if (touch(sums_, touched_by(plan_, calls_[i]))) return false;
        }
        return false;
    }

    /// Whether the call writes another part of the buffer that was written last.
    bool continues(const PlanCall &c) const {
        for (size_t i = 0; c.worker >= 0 && i < c.args.size(); i++)
            if (c.args[i].buffer == results_.back().buffer && plan_.writes(c, i)) return true;
        return false;
    }

    static bool touch(const ExchangeParts &parts, const std::vector<Touched> &touched) {
        for (const Exchange::Part &p : parts)
            for (const Touched &r : touched)
                if (r.conflicts({p.buffer, p.begin, p.begin + p.bytes, true})) return true;
        return false;
    }

    void check(const PlanCall &c) const {
        for (const PlanCall::Bound &a : c.args)
            if (plan_.buffers[size_t(a.buffer)].role == Role::share)
                fail("'{}' reads the gradient of '{}' in the memory of other workers, but each GPU has memory of its "
                     "own: compile the step again",
                     c.name, plan_.buffers[size_t(a.buffer)].name);
    }

    void put(ExchangeParts &parts) {
        if (parts.empty()) return;
        list_.push_back({joined(parts), at_, calls_.size()});
        parts.clear();
    }

    /// Merges the parts that all workers own of an array into one transfer where they are adjacent and equal. The last
    /// part may be shorter.
    ExchangeParts joined(ExchangeParts parts) const {
        std::ranges::stable_sort(parts, {}, &Exchange::Part::buffer);
        ExchangeParts all;
        const size_t workers = size_t(plan_.workers);
        for (size_t i = 0; i < parts.size();) {
            const Exchange::Part &first = parts[i];
            size_t n = 0;
            for (; n < workers && i + n < parts.size(); n++) {
                const Exchange::Part &p = parts[i + n];
                if (p.kind != first.kind || p.buffer != first.buffer || p.owner != int(n) || p.bytes > first.bytes ||
                    p.begin != first.begin + int64_t(n) * first.bytes || (n + 1 < workers && p.bytes < first.bytes))
                    break;
            }
            if (n < workers) {
                all.push_back(parts[i++]);
                continue;
            }
            const bool adds = first.kind == TransferKind::reduce;
            all.push_back({adds ? TransferKind::reduce_scatter : TransferKind::all_gather, -1, first.buffer,
                           first.begin, int64_t(workers) * first.bytes});
            i += n;
        }
        return all;
    }
};

}  // namespace

int64_t Exchange::bytes() const { return bytes_of_parts(parts); }

std::vector<Exchange> exchanges(const Plan &plan, const std::vector<PlanCall> &calls) {
    return Exchanges(plan, calls).list();
}

const char *name_of(TransferKind kind) {
    switch (kind) {
    case TransferKind::reduce_scatter:
        return "reduce-scatter";
    case TransferKind::reduce:
        return "reduce";
    case TransferKind::all_gather:
        return "all-gather";
    case TransferKind::broadcast:
        return "broadcast";
    }
    return "";
}

}  // namespace cryolite
