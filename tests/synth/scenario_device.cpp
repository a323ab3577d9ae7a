// The GPU's side of a Scenario: kernels and events between the collectives, graphs, and what the device reports.
#include "scenario.h"
#include "scenario_state.h"

namespace titan::synth {

using namespace titan;
using namespace titan::format;

Program& Program::work(WorkKind kind, uint64_t stream, uint64_t object) {
    Action action;
    action.kind = Action::kWork;
    action.work = kind;
    action.stream = stream;
    action.object = object;
    actions.push_back(action);
    return *this;
}

Program& Program::kernel(const std::string& name, uint64_t stream) {
    work(WorkKind::kKernel, stream);
    actions.back().text = name;
    return *this;
}

Program& Program::hanging_kernel(const std::string& name, uint64_t stream) {
    kernel(name, stream);
    actions.back().never_finishes = true;
    return *this;
}

Program& Program::capture(uint64_t graph) {
    work({}, 0, graph);
    actions.back().kind = Action::kCaptureBegin;
    return *this;
}

Program& Program::end_capture() {
    work({}, 0);
    actions.back().kind = Action::kCaptureEnd;
    return *this;
}

Program& Program::replay(uint64_t graph, uint64_t stream) {
    work(WorkKind::kGraphLaunch, stream, graph);
    actions.back().kind = Action::kReplay;
    return *this;
}

void Scenario::hand_over(int rank, const Action& action) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    RingBuilder& ring = *rings_[static_cast<size_t>(rank)];
    const char* call = action.work == WorkKind::kKernel        ? "cudaLaunchKernel"
                       : action.work == WorkKind::kEventRecord ? "cudaEventRecord"
                       : action.work == WorkKind::kEventWait   ? "cudaStreamWaitEvent"
                       : action.work == WorkKind::kGraphLaunch ? "cudaGraphLaunch"
                                                               : "cudaMemcpyAsync";
    const bool orders = action.work == WorkKind::kEventRecord || action.work == WorkKind::kEventWait ||
                        action.work == WorkKind::kGraphLaunch;
    const bool sampled = options_.launch_sample != 0 && host.handed_over % options_.launch_sample == 0;
    if (options_.cuda_calls && (orders || sampled)) {
        StreamWorkEntry& entry = ring.add_work(action.work, action.stream);
        entry.thread = tid(rank);
        entry.entered_ticks = now_;
        entry.object = action.object;
        entry.amount = action.work == WorkKind::kGraphLaunch ? host.replays : action.count;
        entry.call = ring.text(call);
        entry.name = action.text.empty() ? entry.call : ring.text(action.text);
    }
    ++host.handed_over;
    ++host.thread().handed_over;
    host.thread().last_call = call;
    host.thread().last_call_ticks = now_ + 1000;
    Group group;
    group.work = action;
    if (action.work == WorkKind::kEventRecord) {
        group.record = host.newest_record[action.object] = ++host.records;
    } else if (action.work == WorkKind::kEventWait) {
        group.record = host.newest_record[action.object];
    }
    host.queue(action.stream, group);
}

// The collectives of the graph run one after another; the device tells only when the first starts and the last ends.
void Scenario::replay(int rank, const Action& action) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    ++host.replays;
    ++host.launches;
    Action launch = action;
    launch.work = WorkKind::kGraphLaunch;
    hand_over(rank, launch);
    std::vector<uint64_t> tickets;
    for (Action call : host.graphs[action.object]) {
        call.stream = action.stream;
        tickets.push_back(rings_[static_cast<size_t>(rank)]->next_ticket());
        issue(rank, call, action.object, host.replays);
    }
    host.streams[action.stream].back().replay_ends = tickets;
}

void Scenario::record_sync(int rank, const char* name, uint64_t stream) {
    const Thread& thread = hosts_[static_cast<size_t>(rank)]->thread();
    CudaCallEntry& call = rings_[static_cast<size_t>(rank)]->add_cuda_call(name);
    call.thread = tid(rank);
    call.object = stream;
    call.entered_ticks = thread.inside.empty() ? now_ : thread.inside_since;
    call.returned_ticks = now_ + 1000;
}

const Scenario::Queued* Scenario::head_of(int rank, const std::string& communicator, OpKind op, int peer,
                                          uint64_t sequence) const {
    const Host& host = *hosts_[static_cast<size_t>(rank)];
    if (host.state == Host::kDead || host.state == Host::kCrashed) {
        return nullptr;
    }
    for (const auto& [stream, queue] : host.streams) {
        const Group* front = host.front(stream);
        if (front == nullptr) {
            continue;
        }
        for (const Queued& queued : front->calls) {
            const bool p2p = class_of(queued.action.op) == OpClass::p2p;
            const bool fits = p2p ? queued.action.op == op && queued.action.peer == peer : class_of(op) != OpClass::p2p;
            if (queued.action.communicator == communicator && queued.sequence == sequence && fits) {
                return &queued;
            }
        }
    }
    return nullptr;
}

bool Scenario::is_ready(int rank, const Queued& queued) const {
    const CommunicatorSpec& spec = communicators_.at(queued.action.communicator);
    if (is_one_sided(queued.action.op)) {  // the sender waits for nobody
        const auto sent =
            signals_.find({queued.action.communicator, spec.ranks[static_cast<size_t>(queued.action.peer)], rank});
        return queued.action.op != OpKind::kWaitSignal ||
               (sent != signals_.end() && sent->second >= queued.action.count);
    }
    if (class_of(queued.action.op) == OpClass::p2p) {
        const bool send = queued.action.op == OpKind::kSend;
        const int peer = spec.ranks[static_cast<size_t>(queued.action.peer)];
        const Queued* other = head_of(peer, queued.action.communicator, send ? OpKind::kRecv : OpKind::kSend,
                                      spec.rank_of(rank), queued.sequence);
        return other != nullptr && other->action.count == queued.action.count;
    }
    for (const int member : spec.ranks) {
        const Queued* other = head_of(member, queued.action.communicator, queued.action.op, -1, queued.sequence);
        // Another reduction goes unnoticed in NCCL; everything else does not.
        if (other == nullptr || other->action.never_finishes || other->action.op != queued.action.op ||
            other->action.count != queued.action.count || other->action.peer != queued.action.peer ||
            other->action.datatype != queued.action.datatype) {
            return false;
        }
    }
    return true;
}

void Scenario::reach(int rank, const Group& group) {
    if (group.launch != 0 && options_.method == GpuProgressMethod::kWrites && !is_dead(rank)) {
        rings_[static_cast<size_t>(rank)]->marks(group.launch).started = group.launch;
    }
}

bool Scenario::is_done(int rank, const Group& group) const {
    if (!group.work) {
        return true;
    }
    const Host& host = *hosts_[static_cast<size_t>(rank)];
    const bool waits = group.work->work == WorkKind::kEventWait && group.record != 0;
    return !group.work->never_finishes && (!waits || host.records_done.contains(group.record));
}

void Scenario::finish_group(int rank, const Group& group) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    if (group.work && group.work->work == WorkKind::kEventRecord) {
        host.records_done.insert(group.record);
    }
    if (group.replayed) {
        for (const uint64_t ticket : group.replay_ends) {
            const CollectiveEntry& entry = rings_[static_cast<size_t>(rank)]->call(ticket);
            Queued queued;
            queued.ticket = ticket;
            queued.sequence = entry.sequence;
            queued.action.op = entry.kind;
            finish(rank, queued);
        }
    } else {
        for (const Queued& queued : group.calls) {
            finish(rank, queued);
        }
    }
    const bool last = !group.replayed || !group.replay_ends.empty();
    if (group.launch != 0 && options_.method == GpuProgressMethod::kWrites && last) {
        rings_[static_cast<size_t>(rank)]->marks(group.launch).finished = group.launch;
    }
}

}  // namespace titan::synth
