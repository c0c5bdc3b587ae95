// When each call of a plan may run: after those whose results it needs, and after what other workers do for it.

#include "runtime/collective/sum.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/order/touched.h"

namespace cryolite {

namespace {

using End = Executor::Line::End;

int offer(void **argv) {
    auto *end = static_cast<End *>(argv[0]);
    return end->collective->offer(end->number), 0;
}
int add(void **argv) {
    auto *end = static_cast<End *>(argv[0]);
    return add_in_tree(end->sum, end->collective->shares(end->number), size_t(end->count), end->context), 0;
}
int publish(void **argv) {
    auto *end = static_cast<End *>(argv[0]);
    return end->collective->publish(end->number), 0;
}
int nothing(void **) { return 0; }

/// Whether the call does more than signal other workers or wait for them.
bool computes(int (*function)(void **)) { return function != offer && function != publish && function != nothing; }

std::function<Gate()> when(bool (HostCollective::*ready)(int), const End &end) {
    return [ready, c = end.collective, n = end.number] {
        return (c->*ready)(n) ? Gate::open : c->broken() ? Gate::broken : Gate::closed;
    };
}

/// The gate of a call that changes what a checkpoint holds: as `otherwise`, but broken once a worker has failed.
std::function<Gate()> update_when(Collective *collective, std::function<Gate()> otherwise) {
    return [collective, otherwise = std::move(otherwise)] {
        const Gate gate = otherwise ? otherwise() : Gate::open;
        return gate == Gate::open && !collective->begin_update() ? Gate::broken : gate;
    };
}

}  // namespace

/// A call waits for the earlier ones that write what it touches, or touch what it writes. Buffers of the arena may
/// share memory, so memory ranges are compared, not buffers. A call that runs on one worker becomes several calls.
/// Every worker offers, once the calls before it are done. The owner runs it once all have offered, and publishes. The
/// others then go on with the calls that wait for it.
void Executor::order(Line &line) const {
    std::vector<std::vector<Touched>> touched;
    for (const Line::Call &c : line.calls) touched.push_back(touched_by(plan(), *c.plan));
    auto add_ready = [&](int call, int (*function)(void **), void **argv, std::function<Gate()> gate = {}) {
        line.ready.push_back({function,
                              argv,
                              0,
                              {},
                              std::move(gate),
                              computes(function) ? std::string_view(line.calls[size_t(call)].plan->name) : ""});
        line.call_of.push_back(call);
        return int(line.ready.size()) - 1;
    };
    auto after = [&](int earlier, int later) {
        line.ready[size_t(earlier)].next.push_back(later), line.ready[size_t(later)].waits++;
    };
    struct Place {
        int first, run = -1, done;  ///< indices in `ready`; run is -1 where another worker runs the call
    };
    std::vector<Place> places;
    auto end = line.ends.begin();
    for (size_t later = 0; later < line.calls.size(); later++) {
        Line::Call &c = line.calls[later];
        Place at{};
        const bool updates = collective_ && changes_checkpoint(*c.plan);
        if (c.shared < 0) {
            at.first = at.run = at.done = add_ready(int(later), c.function, c.argv.data());
            if (updates) line.ready[size_t(at.run)].gate = update_when(collective_, {});
        } else {
            End &e = *end++;
            at.first = add_ready(int(later), offer, e.argv);
            int last = at.first;
            if (c.plan->worker == collective_->worker) {
                at.run = c.plan->sum > 0 ? add_ready(int(later), add, e.argv)
                                         : add_ready(int(later), c.function, c.argv.data());
                const auto offered = when(&HostCollective::offered, e);
                line.ready[size_t(at.run)].gate = updates ? update_when(collective_, offered) : offered;
                last = add_ready(int(later), publish, e.argv);
                after(at.first, at.run), after(at.run, last);
            }
            at.done = add_ready(int(later), nothing, e.argv, when(&HostCollective::published, e));
            after(last, at.done);
            if (at.run >= 0) at.done = at.run;  // the owner may read the result while it is sent
        }
        for (size_t earlier = 0; earlier < later; earlier++) {
            if (!conflict(touched[earlier], touched[later])) continue;
            const int done = places[earlier].done;
            // Two calls of the same worker are ordered on that worker only: the others do not wait between them.
            const bool same = c.shared >= 0 && c.plan->worker == line.calls[earlier].plan->worker;
            if (!same)
                after(done, at.first);
            else if (at.run >= 0)
                after(done, at.run);
        }
        places.push_back(at);
    }
}

}  // namespace cryolite
