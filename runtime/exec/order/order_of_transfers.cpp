// Orders the calls of a plan where each worker has its own device, which runs them in plan order. Between them are
// calls that put transfers into the side stream, and calls that make kernels wait for transfers.

#include "runtime/exec/executor.h"

namespace cryolite {

namespace {

using Turn = Executor::Line::Turn;

template <typename Work> int noting_errors(const Turn &turn, const Work &work) {
    try {
        return work(), 0;
    } catch (const std::exception &e) {
        return halide_error(turn.context, e.what()), -1;
    }
}

int put_transfers(void **argv) {
    const Turn &t = *static_cast<Turn *>(argv[0]);
    return noting_errors(t, [&] {
        t.stream->after_kernels();
        t.collective->put(t.transfers, t.stream->stream());
        t.stream->mark(t.number);
    });
}

int wait_for_transfers(void **argv) {
    const Turn &t = *static_cast<Turn *>(argv[0]);
    return noting_errors(t, [&] { t.stream->kernels_wait(t.number); });
}

}  // namespace

void Executor::order_between(Line &line, const std::vector<Exchange> &between) {
    auto add = [&](size_t call, int (*function)(void **), void **argv, std::string_view name = "") {
        line.ready.push_back({.function = function, .argv = argv, .name = name});
        line.call_of.push_back(int(call));
    };
    const size_t calls = line.calls.size();
    size_t begun = 0;
    for (size_t i = 0; i <= calls; i++) {
        for (; begun < between.size() && between[begun].after == i; begun++) {
            Turn &t = line.turns.emplace_back(Turn{between_, side_.get(), begun, {}, line.context, {}});
            t.argv[0] = &t;
            for (const Exchange::Part &p : between[begun].parts)
                t.transfers.push_back(
                    {p.kind, p.owner, device_.address(bound({p.buffer, p.begin}, "uint8")), size_t(p.bytes)});
            add(i - 1, put_transfers, t.argv);
        }
        for (size_t e = begun; e-- > 0;)  // waiting for the last one is enough: all before it have ended then
            if (between[e].before == i) {
                add(std::min(i, calls - 1), wait_for_transfers, line.turns[e].argv);
                break;
            }
        if (i == calls) return;
        Line::Call &c = line.calls[i];
        if (c.function) add(i, c.function, c.argv.data(), c.plan->name);
    }
}

}  // namespace cryolite
