// The inside of a Scenario: what a rank's host and streams hold while the job is played.
#pragma once

#include <deque>

#include "scenario.h"

namespace titan::synth {

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
};

}  // namespace titan::synth
