// The device side: how members exchange data. Runs on the worker thread of the stream.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "plan.h"
#include "reduce.h"

namespace simgpu {

namespace {

// Without it a disagreement about reduction or datatype (of the same size) computes nonsense, as NCCL does.
bool strict_matching() {
    static const bool strict = std::getenv("SIMGPU_STRICT_MATCHING") != nullptr;
    return strict;
}

class Runner {
  public:
    Runner(Core& core, const int32_t* cancelled)
        : core_(core), segment_(*core.segment), cancelled_(cancelled), stop_([this] { return stopped(); }) {}

    bool collective(const CollectiveOp& op);
    bool exchange(const CollectiveOp& op, OpProgress* progress);
    bool transfers(std::vector<TransferOp> ops);
    bool signal(const SignalOp& op);

  private:
    bool stopped() const {
        return core_.abort.load(std::memory_order_relaxed) ||
               std::atomic_ref<const int32_t>(*cancelled_).load(std::memory_order_relaxed) != 0;
    }

    // What a device does after a mismatch: nothing, until the communicator is aborted.
    bool hang() {
        while (!stopped()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return false;
    }

    bool descriptions_match(int phase);
    bool one_channel_is_stuck(int phase);
    void publish(const CollectiveOp& op, size_t offset, size_t bytes, int phase);
    void consume(const CollectiveOp& op, size_t offset, size_t bytes, int phase);
    void reduce_range(const CollectiveOp& op, unsigned char* out, size_t skip, size_t bytes, int phase);

    Core& core_;
    Segment& segment_;
    const int32_t* cancelled_;
    Stop stop_;
};

bool contributes(const CollectiveOp& op, int rank) { return op.kind != OpKind::kBroadcast || rank == op.root; }

bool Runner::collective(const CollectiveOp& op) {
    OpProgress* progress = op.profile.progress.get();
    if (progress) {
        progress->start(kChannels);
    }
    const bool done = exchange(op, progress);
    if (done && progress) {
        progress->stop(0, kChannels);
    }
    return done;
}

bool Runner::exchange(const CollectiveOp& op, OpProgress* progress) {
    const size_t total = contribution_bytes(op, core_.ranks);
    size_t offset = 0;
    for (bool first = true; first || offset < total; first = false) {
        const int phase = static_cast<int>(core_.round++ & 1);
        const size_t bytes = std::min(kSlotBytes, total - offset);
        if (first) {
            segment_.member(core_.rank).description[phase] = {
                static_cast<int32_t>(op.kind), op.type, op.redop, op.root, total, core_.inject_stuck.exchange(0)};
        }
        if (contributes(op, core_.rank)) {
            publish(op, offset, bytes, phase);
        }
        if (!segment_.pass(segment_.header().device, stop_)) {
            return false;
        }
        if (first && !descriptions_match(phase)) {
            if (progress && one_channel_is_stuck(phase)) {
                progress->stop(0, kChannels - 1);
            }
            return hang();
        }
        consume(op, offset, bytes, phase);
        offset += bytes;
        if (progress) {
            ++progress->steps_done;
        }
    }
    return true;
}

bool Runner::one_channel_is_stuck(int phase) {
    for (int r = 0; r < core_.ranks; ++r) {
        if (segment_.member(r).description[phase].stuck == static_cast<int32_t>(Stuck::kOneChannel)) {
            return true;
        }
    }
    return false;
}

bool Runner::descriptions_match(int phase) {
    const OpDescription& mine = segment_.member(core_.rank).description[phase];
    for (int r = 0; r < core_.ranks; ++r) {
        const OpDescription& other = segment_.member(r).description[phase];
        const bool dynamic = mine.redop >= ncclNumOps && other.redop >= ncclNumOps;
        if (other.stuck || other.kind != mine.kind || other.bytes != mine.bytes || other.root != mine.root) {
            return false;
        }
        if (strict_matching() && (other.datatype != mine.datatype || (other.redop != mine.redop && !dynamic))) {
            return false;
        }
    }
    return true;
}

void Runner::publish(const CollectiveOp& op, size_t offset, size_t bytes, int phase) {
    unsigned char* slot = segment_.slot(core_.rank, phase);
    if (op.has_scalar) {
        const void* scalar = op.scalar.device_value ? op.scalar.device_value : op.scalar.value;
        scale(op.type, slot, op.send + offset, scalar, bytes / element_bytes(op.type));
    } else {
        std::memcpy(slot, op.send + offset, bytes);
    }
}

void Runner::reduce_range(const CollectiveOp& op, unsigned char* out, size_t skip, size_t bytes, int phase) {
    std::vector<const void*> inputs;
    for (int r = 0; r < core_.ranks; ++r) {
        inputs.push_back(segment_.slot(r, phase) + skip);
    }
    reduce(op.type, op.redop, out, inputs.data(), core_.ranks, bytes / element_bytes(op.type));
}

void Runner::consume(const CollectiveOp& op, size_t offset, size_t bytes, int phase) {
    switch (op.kind) {
        case OpKind::kBroadcast: std::memcpy(op.recv + offset, segment_.slot(op.root, phase), bytes); break;
        case OpKind::kReduce:
            if (core_.rank != op.root) {
                break;
            }
            [[fallthrough]];
        case OpKind::kAllReduce: reduce_range(op, op.recv + offset, 0, bytes, phase); break;
        case OpKind::kAllGather:
            for (int r = 0; r < core_.ranks; ++r) {
                const size_t share = op.count * element_bytes(op.type);
                std::memcpy(op.recv + static_cast<size_t>(r) * share + offset, segment_.slot(r, phase), bytes);
            }
            break;
        case OpKind::kReduceScatter: {
            const size_t share = op.count * element_bytes(op.type);
            const size_t begin = std::max(offset, share * static_cast<size_t>(core_.rank));
            const size_t end = std::min(offset + bytes, share * static_cast<size_t>(core_.rank + 1));
            if (begin < end) {
                reduce_range(op, op.recv + (begin - share * static_cast<size_t>(core_.rank)), begin - offset,
                             end - begin, phase);
            }
            break;
        }
        default: break;
    }
}

// All transfers of a group progress together. Per peer and direction they are served in order, one chunk at a time; a
// send is over when its receiver took the last chunk.
bool Runner::transfers(std::vector<TransferOp> ops) {
    struct Progress {
        size_t posted = 0;
        bool started = false, finished = false;
    };
    std::vector<Progress> state(ops.size());
    std::vector<char> busy(static_cast<size_t>(core_.ranks) * 2);
    size_t open = ops.size();
    Bell& bell = segment_.member(core_.rank).bell;
    bool mismatch = false;
    auto step = [&](const TransferOp& op, Progress& at) {
        Mailbox& box = op.is_send ? segment_.mailbox(core_.rank, op.peer) : segment_.mailbox(op.peer, core_.rank);
        const bool full = box.full.load(std::memory_order_acquire) != 0;
        if (full == op.is_send) {
            return false;
        }
        if (op.is_send) {
            if (at.started && at.posted == op.bytes) {
                at.finished = true;
                return true;
            }
            box.total_bytes = op.bytes;
            box.chunk_bytes = std::min(kMailboxBytes, op.bytes - at.posted);
            if (box.chunk_bytes) {
                std::memcpy(box.data, op.from + at.posted, box.chunk_bytes);
            }
            box.full.store(1, std::memory_order_release);
        } else {
            if (box.total_bytes != op.bytes) {
                mismatch = true;
                return false;
            }
            if (box.chunk_bytes) {
                std::memcpy(op.to + at.posted, box.data, box.chunk_bytes);
            }
            at.finished = at.posted + box.chunk_bytes == op.bytes;
        }
        at.posted += box.chunk_bytes;
        at.started = true;
        if (op.profile.progress) {
            ++op.profile.progress->steps_done;
        }
        if (!op.is_send) {
            box.full.store(0, std::memory_order_release);
        }
        segment_.member(op.peer).bell.ring();
        return true;
    };
    while (open > 0) {
        const bool moved = wait_on(
            bell,
            [&] {
                bool any = false;
                std::fill(busy.begin(), busy.end(), 0);
                for (size_t i = 0; i < ops.size(); ++i) {
                    char& lane = busy[static_cast<size_t>(ops[i].peer) * 2 + ops[i].is_send];
                    if (state[i].finished || lane) {
                        continue;
                    }
                    any |= step(ops[i], state[i]);
                    if (state[i].finished && ops[i].profile.progress) {
                        ops[i].profile.progress->stop(0, 1);
                    }
                    open -= state[i].finished;
                    lane = !state[i].finished;
                }
                return any || mismatch;
            },
            stop_);
        if (!moved) {
            return false;
        }
        if (mismatch) {
            return hang();
        }
    }
    return true;
}

// One-sided operations are messages that the target applies while it waits for signals; what is larger than a mailbox
// therefore needs a target that does wait.
bool Runner::signal(const SignalOp& op) {
    if (op.kind != OpKind::kWaitSignal) {
        Mailbox& box = segment_.rma_mailbox(core_.rank, op.peer);
        size_t sent = 0;
        do {
            if (!wait_on(
                    segment_.member(core_.rank).bell, [&] { return box.full.load() == 0; }, stop_)) {
                return false;
            }
            box.window = op.window;
            box.window_offset = op.window_offset + sent;
            box.chunk_bytes = std::min(kMailboxBytes, op.bytes - sent);
            if (box.chunk_bytes) {
                std::memcpy(box.data, op.from + sent, box.chunk_bytes);
            }
            sent += box.chunk_bytes;
            box.last = sent == op.bytes;
            box.full.store(1, std::memory_order_release);
            segment_.member(op.peer).bell.ring();
        } while (sent < op.bytes);
        return true;
    }
    core_.signals_seen.resize(static_cast<size_t>(core_.ranks));
    uint32_t& seen = core_.signals_seen[static_cast<size_t>(op.peer)];
    Mailbox& box = segment_.rma_mailbox(op.peer, core_.rank);
    while (seen < op.awaited) {
        if (!wait_on(
                segment_.member(core_.rank).bell, [&] { return box.full.load(std::memory_order_acquire) != 0; },
                stop_)) {
            return false;
        }
        std::lock_guard lock(core_.lock);
        auto window = core_.windows.find(box.window);
        if (box.chunk_bytes && window != core_.windows.end() &&
            box.window_offset + box.chunk_bytes <= window->second.second) {
            std::memcpy(window->second.first + box.window_offset, box.data, box.chunk_bytes);
        }
        seen += box.last != 0;
        box.full.store(0, std::memory_order_release);
        segment_.member(op.peer).bell.ring();
    }
    seen -= op.awaited;
    return true;
}

}  // namespace

size_t contribution_bytes(const CollectiveOp& op, int ranks) {
    const size_t bytes = op.count * element_bytes(op.type);
    return op.kind == OpKind::kReduceScatter ? bytes * static_cast<size_t>(ranks) : bytes;
}

void Plan::run(const int32_t* cancelled) {
    const CoreRef keep = core;
    {
        std::lock_guard lock(core->lock);
        ++core->plans_running;
    }
    if (profile_at_replay(*this)) {
        profile_make_progress(*this);
        profile_operations(*this);
    }
    {
        std::lock_guard exclusive(core->executing);
        Runner runner(*core, cancelled);
        bool alive = !core->abort;
        for (const TransferOp& op : transfers) {
            if (alive && op.profile.progress) {
                op.profile.progress->start(1);
            }
        }
        if (alive && collectives.empty() && core->inject_stuck.exchange(0)) {
            while (!core->abort && !std::atomic_ref<const int32_t>(*cancelled).load()) {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
            alive = false;
        }
        for (size_t i = 0; alive && i < collectives.size(); ++i) {
            alive = runner.collective(collectives[i]);
        }
        if (alive && !transfers.empty()) {
            alive = runner.transfers(transfers);
        }
        for (size_t i = 0; alive && i < signals.size(); ++i) {
            alive = runner.signal(signals[i]);
        }
    }
    std::lock_guard lock(keep->lock);
    --keep->plans_running;
    if (!captured) {
        --keep->plans_queued;
    }
    keep->plan_ended.notify_all();
}

}  // namespace simgpu
