#pragma once
// A small model checker: runs a few threads that use `Modelled` atomics in every order, with a limited number of
// switches between them, and lets every load see each value that C++20's memory model lets it see (but none that is
// stored later in the order that is tried). Each location has its modification order of messages; a thread and a
// message have a view, which is the last message of each location that happens before.

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace cryolite::test {

class MemoryModel {
public:
    /// Runs `begin`, which makes the atomics and gives each thread its work, once for every order; how many there are.
    static uint64_t explore(int most_switches, const std::function<std::vector<std::function<void()>>()> &begin) {
        MemoryModel model;
        uint64_t orders = 0;
        do {
            model.run(most_switches, begin);
            orders++;
        } while (model.next_order());
        return orders;
    }
    /// Orders in which this does not hold are not looked at: a thread waits in them.
    static void assume(bool holds) {
        if (!holds) now->leave();
    }

    static size_t locate(uint64_t value) {
        now->locations_.push_back({{value, false, {}}});
        return now->locations_.size() - 1;
    }
    static uint64_t load(size_t at, bool acquire) {
        now->may_switch();
        const auto &messages = now->locations_[at];
        const size_t first = now->view()[at];
        const size_t seen = messages.size() - 1 - now->choose(messages.size() - first);
        now->see(at, seen, acquire);
        return messages[seen].value;
    }
    static void store(size_t at, uint64_t value, bool release) {
        now->may_switch();
        std::vector<size_t> places;  // the last first: one that splits no read-modify-write
        const auto &messages = now->locations_[at];
        for (size_t p = messages.size(); p > now->view()[at]; p--)
            if (p == messages.size() || !messages[p].modifies) places.push_back(p);
        const size_t place = places[now->choose(places.size())];
        now->insert(at, place, {value, false, {}}, release);
    }
    /// Sees one of `expected`, or any, and stores what `change` makes of it; false where it sees another value.
    template <class Change> static bool modify(size_t at, const uint64_t *expected, uint64_t &seen,
                                               const Change &change, bool acquire, bool release) {
        now->may_switch();
        const auto &messages = now->locations_[at];
        std::vector<size_t> places;
        for (size_t p = messages.size(); p-- > now->view()[at];) {
            const bool stores = !expected || messages[p].value == *expected;
            if (!stores || p + 1 == messages.size() || !messages[p + 1].modifies) places.push_back(p);
        }
        const size_t place = places[now->choose(places.size())];
        seen = messages[place].value;
        const std::vector<size_t> before = messages[place].view;
        now->see(at, place, acquire);
        if (expected && seen != *expected) return false;
        now->insert(at, place + 1, {change(seen), true, before}, release);
        return true;
    }

private:
    struct Message {
        uint64_t value;
        bool modifies;             ///< the message before it, which nothing may part from it
        std::vector<size_t> view;  ///< by location: a place in its order; shorter: the first
    };
    struct Thread {
        ucontext_t context;
        std::unique_ptr<char[]> stack = std::make_unique<char[]>(stack_bytes);
        std::function<void()> work;
        std::vector<size_t> view;
        bool ended = false;
    };
    struct Choice {
        size_t taken, of;
    };
    static constexpr size_t stack_bytes = 64 << 10;
    static inline MemoryModel *now = nullptr;

    std::vector<std::vector<Message>> locations_;
    std::vector<std::unique_ptr<Thread>> threads_;
    std::vector<size_t> start_;  ///< a view, before the threads begin
    std::vector<Choice> choices_;
    size_t chosen_ = 0, current_ = 0;
    int switches_ = 0;
    bool running_ = false;
    ucontext_t outside_;

    size_t choose(size_t of) {
        if (of == 1) return 0;
        if (chosen_ == choices_.size()) choices_.push_back({0, of});
        return choices_[chosen_++].taken;
    }
    bool next_order() {
        while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().of) choices_.pop_back();
        if (choices_.empty()) return false;
        choices_.back().taken++;
        return true;
    }
    std::vector<size_t> &view() {
        std::vector<size_t> &v = running_ ? threads_[current_]->view : start_;
        v.resize(locations_.size());
        return v;
    }
    static void join(std::vector<size_t> &to, const std::vector<size_t> &from) {
        if (to.size() < from.size()) to.resize(from.size());
        for (size_t i = 0; i < from.size(); i++) to[i] = std::max(to[i], from[i]);
    }
    void see(size_t at, size_t place, bool acquire) {
        view()[at] = place;
        if (acquire) join(view(), locations_[at][place].view);
    }
    void insert(size_t at, size_t place, Message message, bool release) {
        const auto shift = [&](std::vector<size_t> &v) {
            if (at < v.size() && v[at] >= place) v[at]++;
        };
        for (auto &location : locations_)
            for (Message &m : location) shift(m.view);
        for (auto &t : threads_) shift(t->view);
        shift(message.view);
        view()[at] = place;
        if (release) join(message.view, view());
        if (message.view.size() <= at) message.view.resize(at + 1);
        message.view[at] = std::max(message.view[at], place);
        locations_[at].insert(locations_[at].begin() + long(place), std::move(message));
    }
    void may_switch() {
        if (!running_ || switches_ == 0) return;
        std::vector<size_t> others;
        for (size_t t = 0; t < threads_.size(); t++)
            if (t != current_ && !threads_[t]->ended) others.push_back(t);
        const size_t choice = choose(others.size() + 1);
        if (choice == 0) return;
        switches_--;
        const size_t from = std::exchange(current_, others[choice - 1]);
        swapcontext(&threads_[from]->context, &threads_[current_]->context);
    }
    [[noreturn]] void leave() {
        setcontext(&outside_);
        std::abort();
    }
    static void serve() {
        Thread &self = *now->threads_[now->current_];
        self.work();
        self.ended = true;
        std::vector<size_t> others;
        for (size_t t = 0; t < now->threads_.size(); t++)
            if (!now->threads_[t]->ended) others.push_back(t);
        if (others.empty()) now->leave();
        now->current_ = others[now->choose(others.size())];
        setcontext(&now->threads_[now->current_]->context);
    }
    void run(int most_switches, const std::function<std::vector<std::function<void()>>()> &begin) {
        now = this;
        locations_.clear(), start_.clear();
        chosen_ = 0, switches_ = most_switches, running_ = false;
        const std::vector<std::function<void()>> works = begin();
        while (threads_.size() < works.size()) threads_.push_back(std::make_unique<Thread>());
        for (size_t t = 0; t < works.size(); t++) {
            Thread &thread = *threads_[t];
            thread.work = works[t], thread.view = view(), thread.ended = false;
            getcontext(&thread.context);
            thread.context.uc_stack.ss_sp = thread.stack.get(), thread.context.uc_stack.ss_size = stack_bytes;
            makecontext(&thread.context, serve, 0);
        }
        current_ = choose(threads_.size());
        running_ = true;
        swapcontext(&outside_, &threads_[current_]->context);
        running_ = false;
    }
};

/// std::atomic in a MemoryModel.
template <class T> class Modelled {
    using Order = std::memory_order;

public:
    Modelled(T value) : at_(MemoryModel::locate(bits(value))) {}
    T load(Order order) const { return of(MemoryModel::load(at_, acquires(order))); }
    void store(T value, Order order) { MemoryModel::store(at_, bits(value), releases(order)); }
    T fetch_add(T value, Order order) {
        auto sum = [&](uint64_t x) { return bits(T(of(x) + value)); };
        uint64_t seen = 0;
        MemoryModel::modify(at_, nullptr, seen, sum, acquires(order), releases(order));
        return of(seen);
    }
    bool compare_exchange_strong(T &expected, T value, Order order) {
        auto other = [&](uint64_t) { return bits(value); };
        const uint64_t wanted = bits(expected);
        uint64_t seen = 0;
        const bool done = MemoryModel::modify(at_, &wanted, seen, other, acquires(order), releases(order));
        expected = of(seen);
        return done;
    }

private:
    static bool acquires(Order o) { return o != Order::relaxed && o != Order::release; }
    static bool releases(Order o) { return o != Order::relaxed && o != Order::acquire; }
    static uint64_t bits(T value) {
        uint64_t b = 0;
        std::memcpy(&b, &value, sizeof value);
        return b;
    }
    static T of(uint64_t b) {
        T value;
        std::memcpy(&value, &b, sizeof value);
        return value;
    }

    size_t at_;
};

}  // namespace cryolite::test
