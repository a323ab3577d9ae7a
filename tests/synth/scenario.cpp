#include "scenario.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "scenario_state.h"

namespace titan::synth {

using namespace titan;
using namespace titan::format;

// --- programs -------------------------------------------------------------------------------------------------------

namespace {

Action plain(Action::Kind kind) {
    Action action;
    action.kind = kind;
    return action;
}

Action named(Action::Kind kind, const std::string& communicator) {
    Action action = plain(kind);
    action.communicator = communicator;
    return action;
}

}  // namespace

Program& Program::add(Action action) {
    actions.push_back(std::move(action));
    return *this;
}

Program& Program::step(int64_t number) {
    Action action = plain(Action::kStep);
    action.step = number;
    return add(action);
}

Program& Program::span(const std::string& name) {
    Action action = plain(Action::kSpan);
    action.text = name;
    return add(action);
}

Program& Program::call(const std::string& communicator, OpKind op, uint64_t count, int root) {
    Action action = named(Action::kCall, communicator);
    action.op = op;
    action.count = count;
    action.peer = root;
    return add(action);
}

Program& Program::on_stream(uint64_t stream) {
    actions.back().stream = stream;
    return *this;
}

Program& Program::sync(uint64_t stream) {
    Action action = plain(Action::kSync);
    action.stream = stream;
    return add(action);
}

Program& Program::sync_other_device() {
    Action action = plain(Action::kSync);
    action.object = 1;
    return add(action);
}

Program& Program::poll(uint64_t stream) {
    Action action = plain(Action::kPoll);
    action.stream = stream;
    return add(action);
}

Program& Program::group_start() { return add(plain(Action::kGroupStart)); }
Program& Program::group_end() { return add(plain(Action::kGroupEnd)); }
Program& Program::sleep() { return add(plain(Action::kSleep)); }
Program& Program::pause() { return add(plain(Action::kPause)); }
Program& Program::die() { return add(plain(Action::kDie)); }
Program& Program::crash() { return add(plain(Action::kCrash)); }
Program& Program::exit() { return add(plain(Action::kExit)); }
Program& Program::init(const std::string& communicator, bool never_finishes) {
    Action action = named(Action::kInit, communicator);
    action.never_finishes = never_finishes;
    return add(action);
}
Program& Program::split(const std::string& child, bool never_finishes) {
    Action action = named(Action::kSplit, child);
    action.never_finishes = never_finishes;
    return add(action);
}

Program& Program::thread(size_t n) {
    other_threads.resize(std::max(other_threads.size(), n - 1));
    return other_threads[n - 2];
}

size_t Program::find_call(const std::string& communicator, size_t n) const {
    for (size_t i = 0; i < actions.size(); ++i) {
        if (actions[i].kind == Action::kCall && actions[i].communicator == communicator && n-- == 0) {
            return i;
        }
    }
    throw std::out_of_range("no such call on " + communicator);
}

Action& Program::nth_call(const std::string& communicator, size_t n) { return actions[find_call(communicator, n)]; }

Program& Program::skip(const std::string& communicator, size_t n) {
    actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(find_call(communicator, n)));
    return *this;
}

Program& Program::insert_before(const std::string& communicator, size_t n, const Program& what) {
    actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(find_call(communicator, n)), what.actions.begin(),
                   what.actions.end());
    return *this;
}

// --- the play -------------------------------------------------------------------------------------------------------

int Scenario::CommunicatorSpec::rank_of(int global) const {
    const auto found = std::find(ranks.begin(), ranks.end(), global);
    return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

Scenario::Scenario(int ranks, ScenarioOptions options) : options_(std::move(options)) {
    now_ = kEpochTicks + static_cast<uint64_t>(options_.start_s * 1e9);
    for (int rank = 0; rank < ranks; ++rank) {
        RingSpec spec;
        spec.rank = rank;
        spec.world_size = ranks;
        spec.run = options_.run;
        spec.attempt = options_.attempt;
        spec.pid = static_cast<int>(options_.first_pid) + rank;
        spec.collectives = options_.collectives;
        spec.stream_work = options_.stream_work;
        spec.host = "node-" + std::to_string(rank / 8);
        programs_.emplace_back();
        rings_.push_back(std::make_shared<RingBuilder>(spec));
        RingHeader& header = rings_.back()->header();
        header.gpu_progress = options_.gpu_progress ? options_.method : GpuProgressMethod::kOff;
        header.timeout_ns = static_cast<uint64_t>(options_.hang_s * 1e9 / 2);
        header.first_anchor = {2, now_, now_, kEpochRealtimeNs + (now_ - kEpochTicks)};
        header.last_anchor = header.first_anchor;
        hosts_.push_back(std::make_shared<Host>());
    }
    std::vector<int> world(static_cast<size_t>(ranks));
    std::iota(world.begin(), world.end(), 0);
    communicator("world", world);
}

void Scenario::communicator(const std::string& name, std::vector<int> ranks, bool created_by_program) {
    CommunicatorSpec spec;
    spec.id = (std::hash<std::string>{}(name) ^ options_.id_salt) | 1;
    spec.ranks = std::move(ranks);
    spec.created_by_program = created_by_program;
    communicators_[name] = spec;
}

void Scenario::split_of(const std::string& parent, const std::string& child, std::vector<int> ranks) {
    communicator(child, std::move(ranks), true);
    communicators_[child].parent = parent;
}

void Scenario::every_rank(const std::function<void(int, Program&)>& write) {
    for (int rank = 0; rank < size(); ++rank) {
        write(rank, program(rank));
    }
}

void Scenario::create(int rank, const std::string& name) {
    const CommunicatorSpec& spec = communicators_.at(name);
    RingBuilder& ring = *rings_[static_cast<size_t>(rank)];
    const uint32_t row = ring.add_communicator(spec.id, static_cast<int>(spec.ranks.size()), spec.rank_of(rank), name);
    CommunicatorRecord& record = ring.communicator(row);
    record.created_ticks = now_;
    record.ready_ticks = now_ + 1000;
    if (!spec.parent.empty()) {
        const CommunicatorSpec& parent = communicators_.at(spec.parent);
        record.origin = OpKind::kCommSplit;
        record.parent_id = parent.id;
        record.parent_rank = parent.rank_of(rank);
        record.ordinal = spec.ordinal;
    }
    hosts_[static_cast<size_t>(rank)]->rows[name] = row;
}

void Scenario::play() {
    for (auto& [name, spec] : communicators_) {
        for (const int rank : spec.ranks) {
            if (!spec.created_by_program) {
                create(rank, name);
            }
        }
    }
    size_t round = 0;
    for (bool moved = true; moved;) {
        moved = false;
        take_snapshots(round++);
        for (int rank = 0; rank < size(); ++rank) {
            moved |= advance_host(rank);
        }
        moved |= advance_streams();
        now_ += static_cast<uint64_t>(options_.round_s * 1e9);
    }
    for (int rank = 0; rank < size(); ++rank) {
        record_threads(rank, *rings_[static_cast<size_t>(rank)]);
    }
}

void Scenario::take_snapshots(size_t round) {
    for (const auto& [rank, moment] : snapshots_) {
        if (moment == round) {
            const auto copy = std::make_shared<RingBuilder>(*rings_[static_cast<size_t>(rank)]);
            frozen_[rank] = {copy, now_ + static_cast<uint64_t>(options_.hang_s * 1e9)};
            record_threads(rank, *copy);
        }
    }
}

bool Scenario::advance_host(int rank) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    const Program& program = programs_[static_cast<size_t>(rank)];
    host.threads.resize(1 + program.other_threads.size());
    bool moved = false;
    for (host.running = 0; host.running < host.threads.size(); ++host.running) {
        while (advance_thread(rank, host.running == 0 ? program : program.other_threads[host.running - 1])) {
            moved = true;
            now_ += 10'000;
        }
    }
    return moved;
}

bool Scenario::advance_thread(int rank, const Program& program) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    Thread& thread = host.thread();
    if (host.state != Host::kRunning || thread.sleeps || thread.position == program.actions.size() ||
        !run_action(rank, program.actions[thread.position])) {
        return false;
    }
    thread.inside.clear();
    thread.polls = false;
    ++thread.position;
    return true;
}

uint32_t Scenario::tid(int rank) const {
    const auto index = static_cast<size_t>(rank);
    return tid_of(rings_[index]->header().pid, hosts_[index]->running + 1);
}

bool Scenario::run_action(int rank, const Action& action) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    Thread& thread = host.thread();
    RingBuilder& ring = *rings_[static_cast<size_t>(rank)];
    switch (action.kind) {
        case Action::kCall: issue(rank, action, host.capturing, 0); return true;
        case Action::kWork: hand_over(rank, action); return true;
        case Action::kCaptureBegin: host.capturing = action.object; return true;
        case Action::kCaptureEnd: host.capturing = 0; return true;
        case Action::kReplay: replay(rank, action); return true;
        case Action::kSync:
            if (action.object != 0) {
                record_sync(rank, "cudaDeviceSynchronize", 0);
                return true;
            }
            if (host.streams[action.stream].empty()) {
                record_sync(rank, "cudaStreamSynchronize", action.stream);
                thread.last_call = "cudaStreamSynchronize";
                thread.last_call_ticks = now_;
                return true;
            }
            thread.inside_since = thread.inside.empty() ? now_ : thread.inside_since;
            thread.inside = "cudaStreamSynchronize";
            thread.inside_object = action.stream;
            return false;
        case Action::kPoll:
            thread.last_call = "cudaStreamQuery";
            thread.last_call_ticks = now_;
            thread.inside_object = action.stream;
            thread.polls = !host.streams[action.stream].empty();
            return !thread.polls;
        case Action::kStep:
            ring.header().step = action.step;
            ring.header().step_ticks = now_;
            return true;
        case Action::kSpan: thread.span = action.text; return true;
        case Action::kGroupStart:
            ++thread.group_depth;
            ++ring.header().groups;
            return true;
        case Action::kGroupEnd:
            if (--thread.group_depth == 0) {
                launch_group(rank);
            }
            return true;
        case Action::kInit:
        case Action::kSplit: return enter_creation(rank, action);
        case Action::kSleep: thread.sleeps = true; return false;
        case Action::kPause: thread.pauses = !thread.pauses; return !thread.pauses;
        case Action::kDie: host.state = Host::kDead; break;
        case Action::kCrash:
            host.state = Host::kCrashed;
            ring.header().state = ProcessState::kCrashed;
            ring.header().fatal_signal = 11;
            break;
        case Action::kExit:
            host.state = Host::kExited;
            ring.header().state = ProcessState::kExited;
            break;
    }
    host.ended = now_;
    ring.header().heartbeat_ticks = now_;
    return false;
}

void Scenario::issue(int rank, const Action& action, uint64_t graph, uint64_t replay) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    Thread& thread = host.thread();
    RingBuilder& ring = *rings_[static_cast<size_t>(rank)];
    const uint32_t row = host.rows.at(action.communicator);
    CommunicatorRecord& record = ring.communicator(row);
    const bool p2p = class_of(action.op) == OpClass::p2p;
    const bool captured = graph != 0 && replay == 0;
    Queued queued{action, ring.next_ticket(), 0};
    CollectiveEntry& entry = ring.add_call(row, action.op);
    if (action.fails || is_one_sided(action.op)) {
        queued.sequence = kNoSequence;
    } else if (captured) {
        queued.sequence = kNoSequence;
        host.graphs[graph].push_back(action);
        host.graphs[graph].back().group = thread.group_depth != 0 ? ring.header().groups : 0;
    } else if (p2p) {
        const bool send = action.op == OpKind::kSend;
        queued.sequence = host.p2p_counts[{action.communicator, send, action.peer}]++;
        ring.count_p2p(row, send, action.peer);
    } else {
        queued.sequence = record.next_sequence++;
    }
    entry.thread = tid(rank);
    entry.graph = static_cast<uint32_t>(graph);
    entry.replay = replay;
    entry.sequence = queued.sequence;
    entry.count = action.count;
    entry.datatype = action.datatype;
    const bool reduces =
        action.op == OpKind::kAllReduce || action.op == OpKind::kReduce || action.op == OpKind::kReduceScatter;
    entry.reduction = reduces ? action.reduction : Reduction::kNoReduction;
    entry.peer = action.peer;
    entry.stream = action.stream;
    entry.entered_ticks = now_;
    entry.returned_ticks = now_ + 5000;
    entry.result = action.fails ? 4 : 0;
    entry.span = ring.text(thread.span);
    entry.state = action.fails              ? CallState::kFailed
                  : thread.group_depth != 0 ? CallState::kGrouped
                  : options_.gpu_progress   ? CallState::kPending
                                            : CallState::kEnqueued;
    thread.last_call = action.op == OpKind::kAllReduce ? "ncclAllReduce" : "nccl" + std::string(name_of(action.op));
    thread.last_call_ticks = now_ + 5000;
    if (captured) {
        entry.state = CallState::kCaptured;
        entry.flags |= kCaptured;
    }
    if (action.op == OpKind::kCommDestroy || action.op == OpKind::kCommAbort) {
        entry.state = CallState::kReturned;
        entry.sequence = kNoSequence;
        --record.next_sequence;
        record.state = action.op == OpKind::kCommAbort ? CommState::kAborted : CommState::kDestroyed;
        record.closed_ticks = now_;
        return;
    }
    if (action.fails || captured) {
        return;
    }
    if (replay != 0) {
        constexpr uint64_t kNoOtherGroup = 1 << 20;
        entry.flags |= kReplayed;
        entry.launch = host.launches;
        entry.group = action.group == 0 ? 0 : replay * kNoOtherGroup + action.group;
        host.queue(action.stream, {.calls = {queued}, .launch = entry.launch, .replayed = true});
        return;
    }
    if (thread.group_depth != 0) {
        entry.group = ring.header().groups;
        entry.flags |= kInGroup;
        thread.open_group.push_back(queued);
    } else {
        entry.launch = ++host.launches;
        host.queue(action.stream, {.calls = {queued}, .launch = entry.launch});
    }
}

void Scenario::launch_group(int rank) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    Thread& thread = host.thread();
    const uint64_t launch = thread.open_group.empty() ? 0 : ++host.launches;
    for (const Queued& queued : thread.open_group) {
        CollectiveEntry& entry = rings_[static_cast<size_t>(rank)]->call(queued.ticket);
        entry.state = options_.gpu_progress ? CallState::kPending : CallState::kEnqueued;
        entry.launch = launch;
    }
    if (!thread.open_group.empty()) {
        const uint64_t stream = thread.open_group.front().action.stream;
        host.queue(stream, {.calls = std::move(thread.open_group), .launch = launch});
    }
    thread.open_group.clear();
}

void Scenario::finish(int rank, const Queued& queued) {
    if (is_one_sided(queued.action.op)) {
        const int peer = communicators_.at(queued.action.communicator).ranks[static_cast<size_t>(queued.action.peer)];
        if (queued.action.op == OpKind::kWaitSignal) {
            signals_[{queued.action.communicator, peer, rank}] -= queued.action.count;
        } else {
            ++signals_[{queued.action.communicator, rank, peer}];
        }
    }
    RingBuilder& ring = *rings_[static_cast<size_t>(rank)];
    CollectiveEntry& entry = ring.call(queued.ticket);
    if (!options_.gpu_progress || entry.slot_sequence != 2 * queued.ticket + 2) {
        return;
    }
    entry.state = CallState::kFinished;
    entry.gpu_finished_ticks = now_ + static_cast<uint64_t>(queued.action.noted_late_ms) * 1'000'000;
    if (class_of(queued.action.op) != OpClass::p2p) {
        CommunicatorRecord& record = ring.communicator(entry.communicator);
        record.finished = std::max(record.finished, queued.sequence + 1);
    }
}

bool Scenario::advance_streams() {
    std::vector<std::pair<int, uint64_t>> ready;
    for (int rank = 0; rank < size(); ++rank) {
        const auto state = hosts_[static_cast<size_t>(rank)]->state;
        if (state == Host::kDead || state == Host::kCrashed) {
            continue;  // its work on the GPU ended with it
        }
        const Host& host = *hosts_[static_cast<size_t>(rank)];
        for (const auto& [stream, queue] : host.streams) {
            const Group* front = host.front(stream);
            if (front != nullptr) {
                reach(rank, *front);
            }
            if (front != nullptr && is_done(rank, *front) &&
                std::all_of(front->calls.begin(), front->calls.end(),
                            [&](const Queued& queued) { return is_ready(rank, queued); })) {
                ready.emplace_back(rank, stream);
            }
        }
    }
    for (const auto& [rank, stream] : ready) {
        auto& queue = hosts_[static_cast<size_t>(rank)]->streams[stream];
        finish_group(rank, queue.front());
        queue.pop_front();
    }
    return !ready.empty();
}

bool Scenario::enter_creation(int rank, const Action& action) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    Thread& thread = host.thread();
    CommunicatorSpec& spec = communicators_.at(action.communicator);
    RingBuilder& ring = *rings_[static_cast<size_t>(rank)];
    if (!host.rows.contains(action.communicator)) {
        create(rank, action.communicator);
        spec.entered.insert(rank);
        CommunicatorRecord& record = ring.communicator(host.rows[action.communicator]);
        record.state = CommState::kCreating;
        record.ready_ticks = 0;
        record.create_result = -1;
        record.create_thread = tid(rank);
        if (!spec.parent.empty()) {
            record.size = -1;
            record.rank = -1;
        }
        const uint32_t row = spec.parent.empty() ? host.rows[action.communicator] : host.rows.at(spec.parent);
        thread.inside_ticket = ring.next_ticket() + 1;
        CollectiveEntry& entry = ring.add_call(row, spec.parent.empty() ? OpKind::kCommInit : OpKind::kCommSplit);
        entry.thread = tid(rank);
        entry.entered_ticks = now_;
        entry.state = CallState::kEntered;
        entry.result = -1;
        entry.related_id = spec.id;
        thread.inside = spec.parent.empty() ? "ncclCommInitRank" : "ncclCommSplit";
        thread.inside_since = now_;
        thread.inside_object = spec.id;
    }
    const std::vector<int>& needed = spec.parent.empty() ? spec.ranks : communicators_.at(spec.parent).ranks;
    const bool all_there = !action.never_finishes && std::all_of(needed.begin(), needed.end(), [&](int member) {
        return std::any_of(communicators_.begin(), communicators_.end(), [&](const auto& item) {
            return (item.first == action.communicator || (!spec.parent.empty() && item.second.parent == spec.parent)) &&
                   item.second.entered.contains(member);
        });
    });
    if (all_there) {
        CommunicatorRecord& record = ring.communicator(host.rows[action.communicator]);
        record.state = CommState::kLive;
        record.ready_ticks = now_;
        record.create_result = 0;
        record.size = static_cast<int>(spec.ranks.size());
        record.rank = spec.rank_of(rank);
        ring.call(thread.inside_ticket - 1).state = CallState::kReturned;
        thread.inside_ticket = 0;
    }
    return all_there;
}

bool Scenario::is_dead(int rank) const {
    const auto state = hosts_[static_cast<size_t>(rank)]->state;
    return state == Host::kDead || state == Host::kCrashed || state == Host::kExited;
}

uint64_t Scenario::now_ticks(int rank) const {
    const Host& host = *hosts_[static_cast<size_t>(rank)];
    if (const auto frozen = frozen_.find(rank); frozen != frozen_.end()) {
        return frozen->second.now;
    }
    return is_dead(rank) ? host.ended
                         : now_ + static_cast<uint64_t>((options_.hang_s + options_.dump_skew_s * rank) * 1e9);
}

void Scenario::record_threads(int rank, RingBuilder& ring) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    for (host.running = 0; host.running < host.threads.size(); ++host.running) {
        const Thread& from = host.thread();
        ThreadRecord& thread = ring.add_thread(tid(rank));
        thread.call = ring.text(from.inside);
        thread.entered_ticks = from.inside.empty() ? 0 : from.inside_since;
        thread.object = from.inside.empty() ? 0 : from.inside_object;
        thread.ticket = from.inside_ticket;
        thread.last_call = ring.text(from.last_call);
        thread.last_call_ticks = from.last_call_ticks;
        if (from.polls) {
            thread.object = from.inside_object;
            thread.polls = 1000;
            thread.last_call_ticks = now_ticks(rank) - 1'000'000;
        }
        thread.launches = from.handed_over;
        thread.group_depth = static_cast<uint32_t>(from.group_depth);
        if (!from.span.empty()) {
            thread.span_depth = 1;
            thread.spans[0] = ring.text(from.span);
        }
    }
    if (!is_dead(rank)) {
        ring.header().heartbeat_ticks = now_ticks(rank);
    }
}

std::string Scenario::meta(int rank) const {
    const bool exited = hosts_[static_cast<size_t>(rank)]->state == Host::kExited;
    const bool killed = is_dead(rank) && !exited;
    const char* const algorithm = options_.odd_setting < 0 ? "" : options_.odd_setting == rank ? "Tree" : "Ring";
    return dump_meta(now_ticks(rank), killed ? "collected" : exited ? "exit" : options_.reason, !killed, 0, algorithm);
}

void Scenario::write(const std::string& directory, const std::set<int>& without, uint64_t dump_number) {
    for (int rank = 0; rank < size(); ++rank) {
        if (!without.contains(rank)) {
            char name[40];
            std::snprintf(name, sizeof(name), "rank%05d.%llu.titan", rank,
                          static_cast<unsigned long long>(dump_number));
            write_file(directory + "/" + options_.run + "/" + std::to_string(options_.attempt) + "/" + name,
                       make_dump(ring(rank), meta(rank)));
        }
    }
}

}  // namespace titan::synth
