#include "runtime/collective/mpi/ranks.h"

#include <unistd.h>

#include <array>

#include "runtime/system/streams.h"
#include "runtime/system/threads.h"

namespace cryolite {

Ranks::Ranks() {
    int threads = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (threads < MPI_THREAD_MULTIPLE)
        fail("this MPI library does not let several threads call it (MPI_THREAD_MULTIPLE): use Open MPI 4 or later");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    name_peers();
    for (int r = 0; r < size; r++)
        if (r != rank) MPI_Irecv(&peers_[size_t(r)].word, 1, MPI_INT, r, 0, comm_, &peers_[size_t(r)].heard);
    auto name = [this](int r) { return peers_[size_t(r)].name; };
    auto lost = [this] { quiet_ = true; };
    watch_.emplace(Watch::Workers{size, [this](int r) { return alive(r); }, name, lost}, patience_);
}

Ranks::~Ranks() {
    watch_.reset();
    take_leave();
    MPI_Comm_free(&comm_);
    MPI_Finalize();
}

void Ranks::name_peers() {
    struct Place {
        int process = 0;
        std::array<char, 60> node{};
    } own{getpid()};
    gethostname(own.node.data(), own.node.size() - 1);
    std::vector<Place> all(static_cast<size_t>(size));
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, comm_);
    peers_.resize(size_t(size));
    for (int r = 0; r < size; r++) {
        const Place &p = all[size_t(r)];
        peers_[size_t(r)].name = fmt::format("rank {} (process {} on {})", r, p.process, p.node.data());
    }
}

void Ranks::set_patience(double seconds) {
    patience_ = seconds;
    watch_->set_patience(seconds);
}

/// Called by the watch's thread, and at the end. While a message is not sent yet, another would say the same.
void Ranks::say(Peer &peer, const int &word) {
    int gone = 1;
    if (peer.said != MPI_REQUEST_NULL) MPI_Test(&peer.said, &gone, MPI_STATUS_IGNORE);
    if (gone) MPI_Isend(&word, 1, MPI_INT, int(&peer - peers_.data()), 0, comm_, &peer.said);
}

bool Ranks::hear(int r) {
    Peer &peer = peers_[size_t(r)];
    for (bool heard = false;; heard = true) {
        if (peer.left) return true;
        int there = 0;
        MPI_Test(&peer.heard, &there, MPI_STATUS_IGNORE);
        if (!there) return heard;
        peer.left = peer.word == leaving;
        if (!peer.left) MPI_Irecv(&peer.word, 1, MPI_INT, r, 0, comm_, &peer.heard);
    }
}

bool Ranks::alive(int r) {
    static const int word = living;
    if (quiet_) return true;
    if (r != rank) return hear(r);
    if (signs.given())
        for (Peer &p : peers_)
            if (&p != &peers_[size_t(rank)]) say(p, word);
    return true;  // the other ranks notice when this one gives no signs
}

void Ranks::take_leave() {
    static const int word = leaving;
    using Clock = std::chrono::steady_clock;
    const auto limit = Clock::now() + std::chrono::duration<double>(patience_);
    const auto wait_for = [&](const Peer &peer, auto done) {
        for (; !done(); usleep(200)) {
            if (Clock::now() < limit) continue;
            tell("cryolite: {} did not end within {:g} s of this rank (--patience): stopping all ranks", peer.name,
                 patience_);
            abort(1);
        }
    };
    const auto said = [&](Peer &peer) {
        wait_for(peer, [&, gone = 0]() mutable { return MPI_Test(&peer.said, &gone, MPI_STATUS_IGNORE), gone; });
    };
    for (Peer &peer : peers_)
        if (&peer != &peers_[size_t(rank)]) said(peer), say(peer, word);
    for (Peer &peer : peers_) {
        if (&peer == &peers_[size_t(rank)]) continue;
        wait_for(peer, [&] { return hear(int(&peer - peers_.data())), peer.left; });
        said(peer);
    }
}

void Ranks::wait(std::span<MPI_Request> requests) const {
    for (Pauses pauses;; pauses.next()) {
        int all = 0;
        MPI_Testall(int(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE);
        if (all) return;
        watch_->check();
    }
}

void Ranks::abort(int status) const {
    MPI_Abort(MPI_COMM_WORLD, status);
    _exit(status);
}

}  // namespace cryolite
