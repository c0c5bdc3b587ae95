#pragma once

#include "runtime/collective/collective.h"

namespace cryolite {

/// While it lives, a worker runs a plan: the watch expects signs of life from it. Does nothing without a collective.
class AtWork {
public:
    explicit AtWork(Collective *collective) : collective_(collective) { set(true); }
    ~AtWork() { set(false); }
    AtWork(const AtWork &) = delete;

private:
    Collective *collective_;
    void set(bool at_work) {
        if (collective_) collective_->signs.at_work.store(at_work, std::memory_order_release);
    }
};

}  // namespace cryolite
