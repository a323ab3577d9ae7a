#include "random_job.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <stdexcept>

namespace titan::synth {

using namespace titan;
using namespace titan::format;

namespace {

constexpr uint64_t kMain = 0x51;

// The same numbers with every standard library.
class Dice {
  public:
    explicit Dice(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
    int below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
    int between(int low, int high) { return low + below(high - low + 1); }
    bool chance(int percent) { return below(100) < percent; }
    template <typename T>
    const T& one_of(const std::vector<T>& list) {
        return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
    }

  private:
    std::mt19937_64 engine_;
};

// tp fastest, then dp, then pp.
struct Shape {
    int tp = 1, dp = 1, pp = 1;
    bool named = true;
    bool marked = true;   // the program tells its steps
    bool graphs = false;  // the tensor parallel calls of a step are captured once and replayed
    bool kernels = false;
    bool pair_first = false;  // the pipeline's calls on their own stream
    bool dp_stream = false;   // gradients on their own stream
    bool sync_every_step = true;
    int layers = 1, buckets = 1, steps = 6;

    int size() const { return tp * dp * pp; }
    int stage(int rank) const { return rank / (tp * dp); }
    std::string name(const char* axis, int number) const {
        return named ? axis + (":" + std::to_string(number))
                     : std::string("g") + axis[0] + "x" + std::to_string(number);
    }
    std::string tp_of(int rank) const { return name("tp", rank / tp); }
    std::string dp_of(int rank) const { return name("dp", rank % tp + stage(rank) * tp); }
    std::string pp_of(int rank) const { return name("pp", rank % (tp * dp)); }
};

Shape random_shape(Dice& dice) {
    Shape shape;
    do {
        shape.tp = dice.one_of(std::vector<int>{1, 2, 2, 4, 4, 8});
        shape.dp = dice.one_of(std::vector<int>{1, 2, 3, 4, 8});
        shape.pp = dice.one_of(std::vector<int>{1, 1, 2, 2, 4});
    } while (shape.size() < 2 || shape.size() > 64);
    shape.named = dice.chance(70);
    shape.marked = dice.chance(70);
    shape.graphs = shape.tp > 1 && dice.chance(20);
    shape.kernels = dice.chance(60);
    shape.pair_first = dice.chance(30);
    shape.dp_stream = dice.chance(40);
    shape.sync_every_step = dice.chance(80);
    shape.layers = dice.between(1, 3);
    shape.buckets = dice.between(1, 3);
    shape.steps = dice.between(5, 9);
    return shape;
}

void declare(Scenario& job, const Shape& shape, const std::string& by_program) {
    const auto add = [&](const std::string& name, int first, int stride, int count) {
        std::vector<int> ranks;
        for (int i = 0; i < count; ++i) {
            ranks.push_back(first + i * stride);
        }
        if (count > 1) {
            job.communicator(name, ranks, name == by_program);
        }
    };
    for (int rank = 0; rank < shape.size(); ++rank) {
        const int in_stage = rank % (shape.tp * shape.dp);
        if (rank % shape.tp == 0) {
            add(shape.tp_of(rank), rank, 1, shape.tp);
        }
        if (in_stage < shape.tp) {
            add(shape.dp_of(rank), rank, shape.tp, shape.dp);
        }
        if (rank < shape.tp * shape.dp) {
            add(shape.pp_of(rank), rank, shape.tp * shape.dp, shape.pp);
        }
    }
}

void write_layers(const Shape& shape, int rank, int step, Program& program) {
    if (shape.tp == 1) {
        if (shape.kernels) {
            program.kernel("_Z4gemmPf");
        }
        return;
    }
    if (shape.graphs) {
        program.replay(1);
        return;
    }
    for (int layer = 0; layer < shape.layers; ++layer) {
        if (shape.kernels) {
            program.kernel("_Z4gemmPf");
        }
        program.all_reduce(shape.tp_of(rank), 4096U << layer);
    }
    if (step % 2 == 1) {
        program.all_gather(shape.tp_of(rank), 128);
    }
}

// Activations down the pipeline, gradients up.
void write_pipeline(const Shape& shape, int rank, int step, Program& program) {
    const int stage = shape.stage(rank);
    const uint64_t stream = shape.pair_first ? 0x53 : kMain;
    const auto pair = [&](bool send, int peer) {
        if (peer >= 0 && peer < shape.pp) {
            (send ? program.send(shape.pp_of(rank), peer) : program.recv(shape.pp_of(rank), peer)).on_stream(stream);
        }
    };
    pair(false, stage - 1);
    write_layers(shape, rank, step, program);
    pair(true, stage + 1);
    program.span("backward");
    pair(false, stage + 1);
    pair(true, stage - 1);
}

void write_program(const Shape& shape, int rank, Program& program) {
    const uint64_t dp_stream = shape.dp_stream ? 0x52 : kMain;
    if (shape.graphs) {
        program.capture(1);
        for (int layer = 0; layer < shape.layers; ++layer) {
            program.all_reduce(shape.tp_of(rank), 4096U << layer);
        }
        program.end_capture();
    }
    for (int step = 0; step < shape.steps; ++step) {
        if (shape.marked) {
            program.step(step);
        }
        program.span("forward");
        write_pipeline(shape, rank, step, program);
        for (int bucket = 0; shape.dp > 1 && bucket < shape.buckets; ++bucket) {
            program.call(shape.dp_of(rank), bucket == 0 ? OpKind::kReduceScatter : OpKind::kAllReduce, 1024U << bucket)
                .on_stream(dp_stream);
        }
        program.span("optimizer").all_reduce("world", 1);
        if (step % 3 == 2) {
            program.broadcast("world", 0, 32);
        }
        if (shape.sync_every_step || step + 1 == shape.steps) {
            program.sync();
            if (shape.dp_stream && shape.dp > 1) {
                program.sync(0x52);
            }
            if (shape.pair_first && shape.pp > 1) {
                program.sync(0x53);
            }
        }
    }
}

// --- planting -------------------------------------------------------------------------------------------------------

class Planter {
  public:
    Planter(Dice& dice, const Shape& shape, Scenario& job, RandomRun& run)
        : dice_(dice), shape_(shape), job_(job), run_(run) {}

    // False where this job has no place for such a fault.
    bool plant(RandomFault fault) {
        rank_ = dice_.below(shape_.size());
        run_.ranks = {rank_};
        switch (fault) {
            case RandomFault::kSleep: return end(&Program::sleep);
            case RandomFault::kDie: return end(&Program::die);
            case RandomFault::kCrash: return end(&Program::crash);
            case RandomFault::kExit: return end(&Program::exit);
            case RandomFault::kMissing: run_.without = {rank_}; return end(&Program::die);
            case RandomFault::kOtherOp:
                return change([](Action& call) {
                    call.op = call.op == OpKind::kAllGather ? OpKind::kAllReduce : OpKind::kAllGather;
                });
            case RandomFault::kSize: return change([](Action& call) { call.count = call.count * 2 + 1; });
            case RandomFault::kDtype: return change([](Action& call) { call.datatype = Datatype::kBfloat16; });
            case RandomFault::kRedop:
                return change([](Action& call) { call.reduction = Reduction::kMax; },
                              [](const Action& call) { return call.op == OpKind::kAllReduce; });
            case RandomFault::kRoot:
                return change([](Action& call) { call.peer = 1; },
                              [](const Action& call) { return call.op == OpKind::kBroadcast; });
            case RandomFault::kStuck: return stuck();
            case RandomFault::kSkip: return skip([](const Action& call) { return class_of(call.op) != OpClass::p2p; });
            case RandomFault::kP2pUnmatched:
                return skip([](const Action& call) { return class_of(call.op) == OpClass::p2p; });
            case RandomFault::kExtra: return extra();
            case RandomFault::kInversion: return invert();
            case RandomFault::kP2pCycle: return cross_sends();
            case RandomFault::kGpuBlocked: return block();
            case RandomFault::kCapture: return capture();
            case RandomFault::kInit: return skip_init();
            case RandomFault::kNone: break;
        }
        return false;
    }

  private:
    std::vector<Action>& actions() { return job_.program(rank_).actions; }

    // A call of the rank in the second half of the job, that is no part of a graph.
    template <typename Fits>
    int find(Fits&& fits) {
        std::vector<int> places;
        bool captured = false;
        int64_t step = -1;
        for (size_t i = 0; i < actions().size(); ++i) {
            const Action& action = actions()[i];
            captured = action.kind == Action::kCaptureBegin || (captured && action.kind != Action::kCaptureEnd);
            step += action.kind == Action::kSpan && action.text == "forward" ? 1 : 0;
            if (action.kind == Action::kCall && !captured && step >= 2 && fits(action)) {
                places.push_back(static_cast<int>(i));
            }
        }
        return places.empty() ? -1 : dice_.one_of(places);
    }

    void tell(const std::string& what, int at) {
        std::ostringstream story;
        story << "rank " << rank_ << ": " << what;
        if (at >= 0) {
            const Action& action = actions()[static_cast<size_t>(at)];
            int n = 0;
            for (int i = 0; i < at; ++i) {
                n += actions()[static_cast<size_t>(i)].kind == Action::kCall &&
                             actions()[static_cast<size_t>(i)].communicator == action.communicator
                         ? 1
                         : 0;
            }
            story << " at call " << n << " on " << action.communicator << " (" << name_of(action.op) << ")";
            run_.members = members_of(action.communicator);
        }
        run_.story += story.str();
    }

    void insert(int at, const Program& what) {
        actions().insert(actions().begin() + at, what.actions.begin(), what.actions.end());
    }

    bool end(Program& (Program::*how)()) {
        const int at = find([](const Action&) { return true; });
        if (at < 0) {
            return false;
        }
        tell("ends", at);
        Program what;
        (what.*how)();
        insert(at, what);
        return true;
    }

    template <typename Change>
    bool change(Change&& apply, const std::function<bool(const Action&)>& fits = {}) {
        const int at =
            find([&](const Action& call) { return class_of(call.op) != OpClass::p2p && (!fits || fits(call)); });
        if (at < 0) {
            return false;
        }
        tell("other arguments", at);
        apply(actions()[static_cast<size_t>(at)]);
        return true;
    }

    std::vector<int> members_of(const std::string& communicator) {
        std::vector<int> members;
        for (int rank = 0; rank < shape_.size(); ++rank) {
            const auto& list = job_.program(rank).actions;
            if (std::any_of(list.begin(), list.end(), [&](const Action& action) {
                    return action.kind == Action::kCall && action.communicator == communicator;
                })) {
                members.push_back(rank);
            }
        }
        return members;
    }

    bool stuck() {
        const int at = find([](const Action& call) { return class_of(call.op) != OpClass::p2p; });
        if (at < 0) {
            return false;
        }
        tell("never finishes", at);
        actions()[static_cast<size_t>(at)].never_finishes = true;
        run_.ranks = members_of(actions()[static_cast<size_t>(at)].communicator);
        return true;
    }

    template <typename Fits>
    bool skip(Fits&& fits) {
        const int at = find(fits);
        if (at < 0) {
            return false;
        }
        tell("skips", at);
        actions().erase(actions().begin() + at);
        return true;
    }

    bool extra() {
        const int at = find([](const Action& call) { return class_of(call.op) != OpClass::p2p; });
        if (at < 0) {
            return false;
        }
        tell("extra call", at);
        Action call = actions()[static_cast<size_t>(at)];
        call.op = OpKind::kAllGather;
        call.peer = -1;
        call.count = 7;
        actions().insert(actions().begin() + at, call);
        return true;
    }

    // Two neighbouring collectives of different communicators on one stream change places.
    bool invert() {
        const auto neighbour = [&](const Action& call) -> Action* {
            const auto at = static_cast<size_t>(&call - actions().data());
            size_t next = at + 1;
            while (next < actions().size() && actions()[next].kind == Action::kSpan) {
                ++next;
            }
            if (next >= actions().size()) {
                return nullptr;
            }
            Action& other = actions()[next];
            // Only communicators with two ranks in common can wait for each other.
            const bool share = other.communicator == "world" || call.communicator == "world";
            const bool fits = share && other.kind == Action::kCall && other.communicator != call.communicator &&
                              other.stream == call.stream && class_of(other.op) != OpClass::p2p &&
                              class_of(call.op) != OpClass::p2p;
            return fits ? &other : nullptr;
        };
        const int at = find([&](const Action& call) { return neighbour(call) != nullptr; });
        if (at < 0) {
            return false;
        }
        tell("swaps with the next", at);
        Action& call = actions()[static_cast<size_t>(at)];
        std::swap(call, *neighbour(call));
        return true;
    }

    // Neighbours of a pipeline send to each other first.
    bool cross_sends() {
        if (shape_.pp < 2) {
            return false;
        }
        const int at = find([](const Action& call) { return call.communicator == "world"; });
        if (at < 0) {
            return false;
        }
        tell("sends before it receives", at);
        const int stage = shape_.stage(rank_);
        const int peer_stage = stage + 1 < shape_.pp ? stage + 1 : stage - 1;
        const int peer = rank_ + (peer_stage - stage) * shape_.tp * shape_.dp;
        const std::string pp = shape_.pp_of(rank_);
        Program mine;
        mine.send(pp, peer_stage).recv(pp, peer_stage);
        Program theirs;
        theirs.send(pp, stage).recv(pp, stage);
        insert(at, mine);
        auto& list = job_.program(peer).actions;
        // All ranks call as often on the world: the same place.
        list.insert(list.begin() + place_on_world(list, at), theirs.actions.begin(), theirs.actions.end());
        run_.ranks = {std::min(rank_, peer), std::max(rank_, peer)};
        return true;
    }

    std::ptrdiff_t place_on_world(const std::vector<Action>& list, int at) {
        const auto on_world = [](const Action& action) {
            return action.kind == Action::kCall && action.communicator == "world";
        };
        auto wanted = std::count_if(actions().begin(), actions().begin() + at, on_world);
        for (size_t i = 0; i < list.size(); ++i) {
            if (on_world(list[i]) && wanted-- == 0) {
                return static_cast<std::ptrdiff_t>(i);
            }
        }
        return static_cast<std::ptrdiff_t>(list.size());
    }

    bool block() {
        const int at = find([](const Action& call) { return class_of(call.op) != OpClass::p2p; });
        if (at < 0) {
            return false;
        }
        tell("a kernel hangs before it", at);
        insert(at, Program().hanging_kernel("_Z4spinv", actions()[static_cast<size_t>(at)].stream));
        return true;
    }

    bool capture() {
        const int at = find([](const Action& call) { return class_of(call.op) != OpClass::p2p; });
        if (at < 0) {
            return false;
        }
        tell("captures and never launches", at);
        insert(at + 1, Program().end_capture());
        insert(at, Program().capture(9));
        return true;
    }

    bool skip_init() {
        const int at = find_init();
        if (at < 0) {
            return false;
        }
        tell("never creates " + actions()[static_cast<size_t>(at)].communicator, -1);
        run_.members = members_of(actions()[static_cast<size_t>(at)].communicator);
        actions()[static_cast<size_t>(at)] = Program().sleep().actions.front();
        return true;
    }

    int find_init() {
        for (rank_ = 0; rank_ < shape_.size(); ++rank_) {
            for (size_t i = 0; i < actions().size(); ++i) {
                if (actions()[i].kind == Action::kInit && (dice_.chance(50) || rank_ + 1 == shape_.size())) {
                    run_.ranks = {rank_};
                    return static_cast<int>(i);
                }
            }
        }
        rank_ = 0;
        return -1;
    }

    Dice& dice_;
    const Shape& shape_;
    Scenario& job_;
    RandomRun& run_;
    int rank_ = 0;
};

// --- runs -----------------------------------------------------------------------------------------------------------

constexpr int kFaults = static_cast<int>(RandomFault::kNone);

const char* const kFaultNames[] = {
#define TITAN_RANDOM_FAULT_NAME(id, name, kinds) name,
    TITAN_RANDOM_FAULTS(TITAN_RANDOM_FAULT_NAME)
#undef TITAN_RANDOM_FAULT_NAME
};
const char* const kFaultKinds[] = {
#define TITAN_RANDOM_FAULT_KINDS(id, name, kinds) kinds,
    TITAN_RANDOM_FAULTS(TITAN_RANDOM_FAULT_KINDS)
#undef TITAN_RANDOM_FAULT_KINDS
};

std::string shape_text(const Shape& shape) {
    std::ostringstream text;
    text << "tp " << shape.tp << " dp " << shape.dp << " pp " << shape.pp << (shape.marked ? "" : " unmarked")
         << (shape.graphs ? " graphs" : "") << (shape.kernels ? " kernels" : "")
         << (shape.dp_stream ? " dp-stream" : "") << (shape.pair_first ? " pp-stream" : "")
         << (shape.sync_every_step ? "" : " async") << " layers " << shape.layers << " buckets " << shape.buckets
         << " steps " << shape.steps;
    return text.str();
}

ScenarioOptions random_options(Dice& dice, const Shape& shape) {
    ScenarioOptions options;
    options.collectives = dice.chance(25) ? 32 : 512;  // a quarter of the rings wrapped
    options.method = dice.chance(50) ? GpuProgressMethod::kWrites : GpuProgressMethod::kEvents;
    options.stream_work = 512;
    options.dump_skew_s = dice.chance(30) ? 0.01 * dice.below(20) : 0;
    options.hang_s = 12 + dice.below(60);
    (void)shape;
    return options;
}

std::unique_ptr<Scenario> make_job(Dice& dice, const Shape& shape, const ScenarioOptions& options, bool init) {
    auto job = std::make_unique<Scenario>(shape.size(), options);
    std::string by_program;
    if (init && shape.size() > 1) {
        const int rank = dice.below(shape.size());
        by_program = shape.dp > 1 ? shape.dp_of(rank) : shape.tp > 1 ? shape.tp_of(rank) : shape.pp_of(rank);
    }
    declare(*job, shape, by_program);
    job->every_rank([&](int rank, Program& program) {
        if (!by_program.empty() &&
            (shape.dp_of(rank) == by_program || shape.tp_of(rank) == by_program || shape.pp_of(rank) == by_program)) {
            program.init(by_program);
        }
        write_program(shape, rank, program);
    });
    return job;
}

}  // namespace

RandomRun random_faulty_run(uint64_t seed) {
    Dice dice(seed);
    const auto fault = static_cast<RandomFault>(seed % kFaults);
    for (int attempt = 0; attempt < 1000; ++attempt) {
        RandomRun run;
        Shape shape = random_shape(dice);
        if (fault == RandomFault::kInit && shape.graphs) {
            continue;
        }
        ScenarioOptions options = random_options(dice, shape);
        if (fault == RandomFault::kGpuBlocked) {
            options.method = GpuProgressMethod::kWrites;
        }
        run.job = make_job(dice, shape, options, fault == RandomFault::kInit);
        run.story = "seed " + std::to_string(seed) + ", " + shape_text(shape) + ", ";
        if (!Planter(dice, shape, *run.job, run).plant(fault)) {
            continue;
        }
        if (dice.chance(10) && shape.size() > 4 && run.without.empty()) {
            const int lost = dice.below(shape.size());
            run.without.insert(lost);
            run.story += ", no dump of rank " + std::to_string(lost);
        }
        run.fault = fault;
        run.fault_name = kFaultNames[static_cast<size_t>(fault)];
        std::istringstream kinds(kFaultKinds[static_cast<size_t>(fault)]);
        for (std::string kind; kinds >> kind;) {
            run.kinds.insert(kind);
        }
        return run;
    }
    throw std::logic_error("no job has a place for this fault");
}

RandomRun random_healthy_run(uint64_t seed) {
    Dice dice(seed ^ 0x5EED);
    RandomRun run;
    const Shape shape = random_shape(dice);
    ScenarioOptions options = random_options(dice, shape);
    options.hang_s = 0.001 * dice.below(100);
    options.dump_skew_s = 0;
    const int round_ms = dice.one_of(std::vector<int>{1, 1, 5, 20, 100});
    options.round_s = 0.001 * round_ms;
    run.reason = "signal";
    run.job = make_job(dice, shape, options, dice.chance(10));
    run.story = "seed " + std::to_string(seed) + ", " + shape_text(shape) + ", rounds of " + std::to_string(round_ms) +
                " ms, moments";
    // A step is about twenty rounds; the ranks hear of the dump within a few.
    const int middle = dice.between(3, shape.steps * 25);
    for (int rank = 0; rank < shape.size(); ++rank) {
        const auto moment = static_cast<size_t>(std::max(0, middle + dice.below(8)));
        run.job->snapshot(rank, moment);
        run.story += " " + std::to_string(moment);
    }
    return run;
}

}  // namespace titan::synth
