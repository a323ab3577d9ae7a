// The inside of a Scenario: what a rank's host and streams hold while the job is played.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>

#include "scenario.h"

namespace titan::synth {

inline bool is_one_sided(OpKind op) {
    return op == OpKind::kPutSignal || op == OpKind::kSignal || op == OpKind::kWaitSignal;
}

struct Scenario::Queued {
    Action action;
    uint64_t ticket = 0;
    uint64_t sequence = 0;
};

// What a stream runs as one: a call, the calls of a group, or a piece of other work.
struct Scenario::Group {
    std::vector<Queued> calls;
    uint64_t launch = 0;
    std::optional<Action> work{};
    uint64_t record = 0;                  // event record: its number; event wait: the one that it waits for
    std::vector<uint64_t> replay_ends{};  // last of a graph launch: tickets of all its calls
    bool replayed = false;
    uint64_t place = 0;  // in the order in which the host handed them over
};

struct Scenario::Thread {
    size_t position = 0;
    bool sleeps = false;
    bool pauses = false;
    bool polls = false;  // it asks whether its stream is done
    std::string inside;  // the call it is blocked in
    uint64_t inside_since = 0;
    uint64_t inside_object = 0;
    uint64_t inside_ticket = 0;
    uint64_t last_call_ticks = 0;
    std::string last_call;
    std::string span;
    uint64_t group_depth = 0;
    std::vector<Queued> open_group;
    uint64_t handed_over = 0;  // pieces of stream work
};

struct Scenario::Host {
    enum { kRunning, kDead, kCrashed, kExited } state = kRunning;
    std::vector<Thread> threads{1};  // one for each program; the first is the main thread
    size_t running = 0;              // the one that acts
    uint64_t ended = 0;
    std::map<uint64_t, std::deque<Group>> streams;
    uint64_t queued = 0;  // groups of all streams
    std::map<std::string, uint32_t> rows;
    std::map<std::tuple<std::string, bool, int>, uint64_t> p2p_counts;
    uint64_t launches = 0;
    uint64_t handed_over = 0;  // pieces of stream work of all threads
    uint64_t records = 0;
    std::map<uint64_t, uint64_t> newest_record;  // by event
    std::set<uint64_t> records_done;
    uint64_t capturing = 0;
    uint64_t replays = 0;
    std::map<uint64_t, std::vector<Action>> graphs;

    Thread& thread() { return threads[running]; }

    void queue(uint64_t stream, Group group) {
        group.place = ++queued;
        streams[stream].push_back(std::move(group));
    }

    // What the stream runs now, if anything. Stream 0, the legacy default stream, and all others wait for each other.
    const Group* front(uint64_t stream) const {
        const std::deque<Group>& own = streams.at(stream);
        const auto holds = [&](const auto& other) {
            return (other.first == 0) != (stream == 0) && !other.second.empty() &&
                   other.second.front().place < own.front().place;
        };
        return own.empty() || std::any_of(streams.begin(), streams.end(), holds) ? nullptr : &own.front();
    }
};

}  // namespace titan::synth
