#pragma once
// The same work in PyTorch, in processes of its own that wait between rounds, so that rounds of
// ours and theirs alternate on the same machine.

#include <memory>
#include <string>
#include <vector>

#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/session/settings.h"

namespace cryolite {

struct PeerResult {
    std::string name;  ///< "torch eager"
    double best_s = 0, median_s = 0;
    uint64_t peak_rss_mb = 0;
};

class Peers {
public:
    /// Starts the peers: with the interpreter of CRYOLITE_PEERS_PYTHON, or else in the environment .peers
    /// of the checkout, which is installed now if it is missing. If that fails, `missing` says why.
    Peers(const TrainSettings &settings, const std::string &script, int threads, Progress &progress);
    ~Peers();

    /// Every peer in turn does `steps` steps.
    void round(uint64_t steps);
    std::vector<PeerResult> results() const;
    /// Which peers could not run, and why; empty: all ran.
    const std::string &missing() const { return missing_; }

private:
    struct Peer;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::string missing_;
    Progress &progress_;

    void start(const std::string &python, const std::string &script, const char *mode, const TrainSettings &settings,
               int threads);
    void lose(const Peer &peer);
};

}  // namespace cryolite
