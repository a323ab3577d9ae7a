// A job on paper: ranks with programs, played by rules as simple as they can be (a collective finishes when all members
// have it at the head of their streams), until nothing moves. Then everybody dumps. What a test reads is the program
// and the fault; rings and dumps come out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ring_builder.h"

namespace titan::synth {

using format::Datatype;
using format::OpKind;
using format::Reduction;

struct Action {
    enum Kind {
        kCall,
        kSync,
        kPoll,
        kStep,
        kSpan,
        kGroupStart,
        kGroupEnd,
        kSleep,
        kPause,
        kDie,
        kCrash,
        kExit,
        kInit,
        kSplit,
        kWork,
        kCaptureBegin,
        kCaptureEnd,
        kReplay
    } kind = kCall;
    std::string communicator;
    OpKind op{};
    uint64_t count = 0;
    Datatype datatype = Datatype::kFloat32;
    Reduction reduction = Reduction::kSum;
    int peer = -1;  // communicator rank
    uint64_t stream = 0x51;
    int64_t step = 0;
    std::string text;             // of a span
    bool never_finishes = false;  // the collective arrives everywhere and hangs on this rank
    bool fails = false;           // the call returns an error
    int64_t noted_late_ms = 0;    // the observer of the GPU comes so late to its end
    format::WorkKind work{};      // kWork: `text` is the kernel's name, `count` its bytes or blocks
    uint64_t group = 0;           // of a call in a graph: that of its capture
    uint64_t object = 0;          // event; capture and replay: the number of the graph; kSync: not 0 for
                                  // another device
    // Of a call in a Flight Recorder file that is written without a play: it is "pending" or "started" there, else
    // done; PyTorch has let go of it; how long after the rank's call before it was made; how long it took.
    std::string recorded;
    bool retired = false;
    int64_t after_ms = 0;
    int64_t took_ms = 5;
};

// What one rank does. Calls chain: program.step(1).all_reduce("dp:0", 1024).sync().
class Program {
  public:
    Program& step(int64_t number);
    Program& span(const std::string& name);  // empty ends it
    Program& call(const std::string& communicator, OpKind op, uint64_t count = 1024, int root = -1);
    Program& all_reduce(const std::string& communicator, uint64_t count = 1024) {
        return call(communicator, OpKind::kAllReduce, count);
    }
    Program& all_gather(const std::string& communicator, uint64_t count = 1024) {
        return call(communicator, OpKind::kAllGather, count);
    }
    Program& reduce_scatter(const std::string& communicator, uint64_t count = 1024) {
        return call(communicator, OpKind::kReduceScatter, count);
    }
    Program& broadcast(const std::string& communicator, int root, uint64_t count = 1024) {
        return call(communicator, OpKind::kBroadcast, count, root);
    }
    Program& send(const std::string& communicator, int peer, uint64_t count = 64) {
        return call(communicator, OpKind::kSend, count, peer);
    }
    Program& recv(const std::string& communicator, int peer, uint64_t count = 64) {
        return call(communicator, OpKind::kRecv, count, peer);
    }
    Program& on_stream(uint64_t stream);  // of the last call
    Program& sync(uint64_t stream = 0x51);
    // Of a device that has nothing to do: returns at once.
    Program& sync_other_device();
    // The same by asking again and again.
    Program& poll(uint64_t stream = 0x51);
    Program& work(format::WorkKind kind, uint64_t stream, uint64_t object = 0);
    Program& kernel(const std::string& name, uint64_t stream = 0x51);
    Program& hanging_kernel(const std::string& name, uint64_t stream = 0x51);
    Program& record(uint64_t event, uint64_t stream) { return work(format::WorkKind::kEventRecord, stream, event); }
    Program& wait(uint64_t event, uint64_t stream) { return work(format::WorkKind::kEventWait, stream, event); }
    // Calls in between are captured and run with each replay.
    Program& capture(uint64_t graph);
    Program& end_capture();
    Program& replay(uint64_t graph, uint64_t stream = 0x51);
    Program& group_start();
    Program& group_end();
    Program& sleep();  // in program code, for ever
    Program& pause();  // lets the others do what they can
    Program& die();    // kill -9
    Program& crash();  // SIGSEGV
    Program& exit();
    Program& init(const std::string& communicator, bool never_finishes = false);
    Program& split(const std::string& child, bool never_finishes = false);

    // The n-th call of the program on a communicator, from 0: where faults are planted.
    Action& nth_call(const std::string& communicator, size_t n);
    Program& skip(const std::string& communicator, size_t n);
    Program& insert_before(const std::string& communicator, size_t n, const Program& what);

    // What another thread of the rank does beside it: n is 2 for the first of them.
    Program& thread(size_t n);

    std::vector<Action> actions;
    std::vector<Program> other_threads;

  private:
    Program& add(Action action);
    size_t find_call(const std::string& communicator, size_t n) const;
};

struct ScenarioOptions {
    std::string run = "synth";
    int attempt = 0;
    uint64_t collectives = 256;  // slots of each ring
    bool gpu_progress = true;
    format::GpuProgressMethod method = format::GpuProgressMethod::kEvents;
    bool cuda_calls = true;      // false: no stream work is recorded at all
    uint64_t launch_sample = 1;  // every n-th piece of stream work is recorded, 0: none but events and graph launches
    uint64_t stream_work = 256;  // slots
    double hang_s = 20;          // how long nothing has moved when the dumps are written
    double dump_skew_s = 0;      // rank r dumps r times this later
    std::string reason = "timeout";
    uint64_t first_pid = 1000;
    uint64_t id_salt = 0;    // other communicator ids: another job
    double start_s = 0;      // the whole job happens this much later
    double round_s = 0.001;  // how long the fastest thing takes
    int odd_setting = -1;    // this rank has NCCL_ALGO=Tree, the others Ring; -1: no dump tells variables
};

// The kernel's number of a rank's thread: 1 is the main thread.
constexpr uint32_t tid_of(int pid, size_t thread) {
    return static_cast<uint32_t>(pid) + 10'000 * static_cast<uint32_t>(thread - 1);
}

class Scenario {
  public:
    explicit Scenario(int ranks, ScenarioOptions options = {});

    // Must be declared before the programs run. Created when the job starts, unless programs init() or split() it.
    void communicator(const std::string& name, std::vector<int> ranks, bool created_by_program = false);
    void split_of(const std::string& parent, const std::string& child, std::vector<int> ranks);
    void every_rank(const std::function<void(int rank, Program& program)>& write);
    Program& program(int rank) { return programs_[static_cast<size_t>(rank)]; }

    // The ring of this rank is what it was at the beginning of this round of the play, not at its end.
    void snapshot(int rank, size_t round) { snapshots_[rank] = round; }
    // Plays the programs. Rings exist afterwards.
    void play();
    int size() const { return static_cast<int>(programs_.size()); }
    RingBuilder& ring(int rank) {
        const auto frozen = frozen_.find(rank);
        return frozen == frozen_.end() ? *rings_[static_cast<size_t>(rank)] : *frozen->second.ring;
    }
    std::string meta(int rank) const;
    bool is_dead(int rank) const;
    uint64_t now_ticks(int rank) const;
    // DIR/<run>/<attempt>/rank<NNNNN>.0.titan, without the ranks in `without`.
    void write(const std::string& directory, const std::set<int>& without = {}, uint64_t dump_number = 0);

  private:
    struct Group;
    struct Queued;
    struct Thread;
    struct Host;
    struct CommunicatorSpec {
        uint64_t id = 0;
        std::vector<int> ranks;
        bool created_by_program = false;
        std::string parent;
        uint32_t ordinal = 0;
        std::set<int> entered;

        int rank_of(int global) const;
    };

    void create(int rank, const std::string& name);
    bool advance_host(int rank);
    bool advance_thread(int rank, const Program& program);
    uint32_t tid(int rank) const;
    bool run_action(int rank, const Action& action);
    void hand_over(int rank, const Action& action);
    void replay(int rank, const Action& action);
    void record_sync(int rank, const char* name, uint64_t stream);
    void reach(int rank, const Group& group);
    bool is_done(int rank, const Group& group) const;
    void finish_group(int rank, const Group& group);
    void issue(int rank, const Action& action, uint64_t graph, uint64_t replay);
    void launch_group(int rank);
    bool advance_streams();
    bool is_ready(int rank, const Queued& queued) const;
    const Queued* head_of(int rank, const std::string& communicator, OpKind op, int peer, uint64_t sequence) const;
    bool enter_creation(int rank, const Action& action);
    void finish(int rank, const Queued& queued);
    void record_threads(int rank, RingBuilder& ring);
    void take_snapshots(size_t round);

    ScenarioOptions options_;
    std::vector<Program> programs_;
    std::vector<std::shared_ptr<RingBuilder>> rings_;
    std::vector<std::shared_ptr<Host>> hosts_;
    std::map<std::string, CommunicatorSpec> communicators_;
    struct Frozen {
        std::shared_ptr<RingBuilder> ring;
        uint64_t now = 0;
    };
    std::map<int, size_t> snapshots_;                                // rank -> round
    std::map<std::tuple<std::string, int, int>, uint64_t> signals_;  // communicator, from, to -> not awaited yet
    std::map<int, Frozen> frozen_;
    uint64_t now_ = 0;
};

}  // namespace titan::synth
