// A training job in time: ranks on hosts with clocks of their own, tensor parallel groups inside a host, data parallel
// groups across hosts, steps with spans, the noise of a healthy job, and one fault. True times are computed, then
// written down as each rank's tracer would have seen them. The same seed gives the same rings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ring_builder.h"

namespace titan::synth {

struct TimedFault {
    static constexpr int kEveryRank = -1;
    enum Kind {
        kNone,
        kSlowSpan,        // the host takes longer in a span
        kSlowKernels,     // the GPU takes longer between collectives
        kSlowCopy,        // the host is blocked in a copy
        kSlowSync,        // the host is blocked in a synchronisation of other work
        kSlowLink,        // collectives between two hosts take longer
        kSlowCollective,  // those of all data parallel groups do
        kManyLaunches,    // the host launches more in a span
    } kind = kNone;
    // kButOne: in all steps but one of `every`.
    enum Pattern { kPersistent, kPeriodic, kOneOff, kButOne } pattern = kPersistent;
    int rank = 0;  // or kEveryRank, each in steps of its own; slow links: of host `host` with the next one
    int host = 0;
    int from_step = 0;
    int every = 8;
    double share = 0.4;         // of a step, longer; collectives: times as long
    std::string span = "data";  // empty: now in one, now in another

    bool strikes(int step) const;
    bool strikes(int step, int one) const;  // that rank
};

struct TimedOptions {
    int hosts = 2;
    int ranks_per_host = 4;
    int tp = 2;        // ranks of a tensor parallel group, inside a host
    int dp_hosts = 0;  // hosts that a data parallel group spans, 0: all
    int steps = 60;
    double step_ms = 100;
    int layers = 2;
    // Gradients of each layer are reduced on a stream of their own, beside the backward pass of the next one. Events
    // order both streams.
    bool overlap = false;
    uint64_t bucket = uint64_t{1} << 24;  // elements of a layer's gradients
    int first_step = 0;
    bool step_marks = true;
    format::GpuProgressMethod method = format::GpuProgressMethod::kTiming;
    bool noise = true;    // jitter
    bool hiccups = true;  // and garbage collection, checkpoints, loaders that are not ready
    int checkpoint_every = 20;
    double clock_offset_ms = 0;  // hosts differ by up to that
    double clock_drift_ppm = 0;
    double clock_jump_ms = 0;  // of the last host, in the middle of the run
    uint64_t seed = 1;
    TimedFault fault;
    std::string run = "timed";
};

class TimedJob {
  public:
    explicit TimedJob(const TimedOptions& options);

    int size() const { return static_cast<int>(ranks_.size()); }
    RingBuilder& ring(int rank) { return *ranks_[static_cast<size_t>(rank)].ring; }
    uint64_t now_ticks(int rank) const;
    int host_of(int rank) const { return rank / options_.ranks_per_host; }
    // What the clock of a host shows at a moment, minus that moment.
    double clock_error_ns(int host, double time_ns) const;
    double end_ns() const { return end_ns_; }
    void write(const std::string& directory);

  private:
    struct Rank {
        std::unique_ptr<RingBuilder> ring;
        double host_ns = 0;    // the host has come to
        double gpu_ns = 0;     // its stream has
        double beside_ns = 0;  // the stream beside it has
        double speed = 1;
        std::vector<uint32_t> rows;  // tp, dp, world
        uint32_t thread = 0;
        uint32_t span = 0;
        uint64_t span_begin_ticks = 0;
        uint64_t function = 0;  // of the kernels that it launches: layers are alike
    };
    struct Group {
        std::string name;
        std::vector<int> ranks;
        bool slow_link = false;
    };
    enum Level { kTp, kDp, kWorld };

    uint64_t launches_per_step() const;
    void launch(int rank, double ns);
    void order(int rank, uint64_t event, uint64_t before, uint64_t after);  // streams
    double random();                                                        // [0, 1)
    double normal();
    double jitter();  // around 1
    void make_groups();
    void make_rings();
    uint64_t ticks(int rank, double time_ns) const;
    uint64_t seen_ticks(int rank, double time_ns);  // as the method sees the device
    void play_step(int step);
    void begin_span(const std::string& name);
    void end_spans();
    void mark(int rank, format::MarkerKind kind, uint64_t value, uint32_t name);
    void host_work(int rank, double ns) { ranks_[static_cast<size_t>(rank)].host_ns += ns; }
    void kernel(int rank, double ns);
    void reduce_beside(int step, int layer);
    void wait_for_reduced();
    void blocking_call(int rank, const char* name, double ns);
    void synchronize(int rank);
    void collective(Level level, int step, format::OpKind kind, uint64_t count, bool beside = false);
    void fault_in_span(int rank, int step, const std::string& span);
    void healthy_noise(int rank, int step);

    TimedOptions options_;
    uint64_t state_;
    std::vector<Rank> ranks_;
    std::vector<std::vector<Group>> groups_;  // by level
    std::vector<double> offsets_ns_, drifts_;
    double step_ns_ = 0;
    double end_ns_ = 0;
};

}  // namespace titan::synth
