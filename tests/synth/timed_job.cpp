#include "timed_job.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace titan::synth {

using namespace titan::format;

namespace {

constexpr double kStartNs = 10e9;  // before the job: clocks may be behind
constexpr double kLatencyNs = 40'000;
constexpr double kBytesPerNs = 20;
constexpr double kPollNs = 2e6;
constexpr double kLaunchNs = 10'000;
constexpr int kLaunches = 10;  // of one computation
constexpr uint64_t kStream = 0x7000;
constexpr uint64_t kBeside = 0x7100;
constexpr uint64_t kGradients = 0x9000;  // event of the first layer
constexpr uint64_t kReduced = 0x8000;
constexpr double kEventNs = 1'000;

}  // namespace

bool TimedFault::strikes(int step) const {
    if (kind == kNone || step < from_step) {
        return false;
    }
    const bool is_nth = (step - from_step) % every == 0;
    switch (pattern) {
        case kPersistent: return true;
        case kPeriodic: return is_nth;
        case kButOne: return !is_nth;
        case kOneOff: return step == from_step;
    }
    return false;
}

bool TimedFault::strikes(int step, int one) const {
    return rank == kEveryRank ? strikes(step + (pattern == kPersistent ? 0 : one)) : rank == one && strikes(step);
}

TimedJob::TimedJob(const TimedOptions& options)
    : options_(options), state_(options.seed * 2654435761 + 88172645463325252ULL) {
    for (int i = 0; i < 8; ++i) {
        random();
    }
    step_ns_ = options_.step_ms * 1e6;
    for (int host = 0; host < options_.hosts; ++host) {
        offsets_ns_.push_back(host == 0 ? 0 : (2 * random() - 1) * options_.clock_offset_ms * 1e6);
        drifts_.push_back(host == 0 ? 0 : (2 * random() - 1) * options_.clock_drift_ppm * 1e-6);
    }
    make_groups();
    make_rings();
    end_ns_ = kStartNs + options_.steps * step_ns_ * 1.3;
    for (int step = 0; step < options_.steps; ++step) {
        play_step(step);
    }
    for (const Rank& rank : ranks_) {
        end_ns_ = std::max(end_ns_, std::max(rank.host_ns, rank.gpu_ns));
    }
    for (int r = 0; r < size(); ++r) {
        Rank& rank = ranks_[static_cast<size_t>(r)];
        auto& thread = rank.ring->add_thread(rank.thread);
        thread.last_call = rank.ring->text("cudaStreamSynchronize");
        thread.last_call_ticks = ticks(r, rank.host_ns);
    }
}

double TimedJob::random() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<double>((state_ * 2685821657736338717ULL) >> 11) / 9007199254740992.0;
}

double TimedJob::normal() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) {
        sum += random();
    }
    return sum - 6;
}

double TimedJob::jitter() { return options_.noise ? std::exp(0.02 * normal()) : 1; }

void TimedJob::make_groups() {
    const int per_host = options_.ranks_per_host;
    const int all = options_.hosts * per_host;
    const int dp_hosts = options_.dp_hosts == 0 ? options_.hosts : options_.dp_hosts;
    groups_.resize(3);
    for (int first = 0; first < all && options_.tp > 1; first += options_.tp) {
        Group group{"tp", {}, false};
        for (int i = 0; i < options_.tp; ++i) {
            group.ranks.push_back(first + i);
        }
        groups_[kTp].push_back(group);
    }
    for (int block = 0; block < options_.hosts / dp_hosts; ++block) {
        for (int tp = 0; tp < options_.tp; ++tp) {
            Group group{"dp", {}, false};
            for (int rank = block * dp_hosts * per_host + tp; rank < (block + 1) * dp_hosts * per_host;
                 rank += options_.tp) {
                group.ranks.push_back(rank);
            }
            const auto has = [&](int host) {
                return std::any_of(group.ranks.begin(), group.ranks.end(),
                                   [&](int rank) { return host_of(rank) == host; });
            };
            group.slow_link = options_.fault.kind == TimedFault::kSlowLink && has(options_.fault.host) &&
                              has(options_.fault.host + 1);
            groups_[kDp].push_back(group);
        }
    }
    groups_[kWorld].push_back({"world", {}, false});
    for (int rank = 0; rank < all; ++rank) {
        groups_[kWorld].front().ranks.push_back(rank);
    }
}

void TimedJob::make_rings() {
    const int all = options_.hosts * options_.ranks_per_host;
    const auto per_step = static_cast<uint64_t>((options_.overlap ? 3 : 2) * options_.layers + 4);
    for (int r = 0; r < all; ++r) {
        RingSpec spec;
        spec.rank = r;
        spec.world_size = all;
        spec.run = options_.run;
        spec.pid = 1000 + r;
        spec.host = "node-" + std::to_string(host_of(r));
        spec.boot_id = "boot-" + std::to_string(host_of(r));
        spec.collectives = per_step * static_cast<uint64_t>(options_.steps) + 16;
        spec.cuda_calls = 4 * static_cast<uint64_t>(options_.steps) + 16;
        spec.markers = 12 * static_cast<uint64_t>(options_.steps) + 16;
        spec.stream_work = static_cast<uint64_t>(options_.steps) * launches_per_step();
        spec.p2p_bytes = 64 + 64 * static_cast<uint64_t>(all);
        Rank rank;
        rank.ring = std::make_unique<RingBuilder>(spec);
        rank.host_ns = rank.gpu_ns = rank.beside_ns = kStartNs;
        rank.speed = options_.noise ? 1 + 0.01 * normal() / 2 : 1;
        rank.thread = static_cast<uint32_t>(spec.pid);
        rank.ring->header().gpu_progress = options_.method;
        ranks_.push_back(std::move(rank));
    }
    for (const auto& level : groups_) {
        for (size_t g = 0; g < level.size(); ++g) {
            const uint64_t id = 0x1000 * (static_cast<uint64_t>(&level - groups_.data()) + 1) + g;
            for (size_t i = 0; i < level[g].ranks.size(); ++i) {
                Rank& rank = ranks_[static_cast<size_t>(level[g].ranks[i])];
                rank.rows.resize(3, 0);
                const auto size = static_cast<int>(level[g].ranks.size());
                const uint32_t row = rank.ring->add_communicator(id, size, static_cast<int>(i), level[g].name);
                rank.rows[static_cast<size_t>(&level - groups_.data())] = row;
                CommunicatorRecord& record = rank.ring->communicator(row);
                record.created_ticks = ticks(level[g].ranks[i], kStartNs - 4e9 + 1e9 * random());
                record.ready_ticks = ticks(level[g].ranks[i], kStartNs - 2.9e9);
            }
        }
    }
}

double TimedJob::clock_error_ns(int host, double time_ns) const {
    const auto h = static_cast<size_t>(host);
    const bool jumped =
        host == options_.hosts - 1 && options_.clock_jump_ms != 0 && time_ns > kStartNs + options_.steps * step_ns_ / 2;
    return offsets_ns_[h] + drifts_[h] * time_ns + (jumped ? options_.clock_jump_ms * 1e6 : 0);
}

uint64_t TimedJob::ticks(int rank, double time_ns) const {
    return kEpochTicks + static_cast<uint64_t>(std::max(1.0, time_ns + clock_error_ns(host_of(rank), time_ns)));
}

uint64_t TimedJob::seen_ticks(int rank, double time_ns) {
    switch (options_.method) {
        case GpuProgressMethod::kOff: return 0;
        case GpuProgressMethod::kTiming: return ticks(rank, time_ns + 50'000 * random());
        default: break;
    }
    if (!options_.overlap) {
        return ticks(rank, time_ns + kPollNs * random());
    }
    // One look shows all that there is to see by then: that a call ended, and that the next one came.
    const double phase_ns = kPollNs * std::fmod(0.618 * rank, 1);
    return ticks(rank, std::ceil((time_ns - phase_ns) / kPollNs) * kPollNs + phase_ns + 50'000 * random());
}

uint64_t TimedJob::now_ticks(int rank) const { return ticks(rank, end_ns_ + 1e6); }

void TimedJob::mark(int r, MarkerKind kind, uint64_t value, uint32_t name) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    MarkerEntry& entry = rank.ring->add_marker(kind);
    entry.ticks = ticks(r, rank.host_ns);
    entry.value = value;
    entry.step = rank.ring->header().step;
    entry.name = name;
    entry.thread = rank.thread;
}

void TimedJob::begin_span(const std::string& name) {
    for (int r = 0; r < size(); ++r) {
        Rank& rank = ranks_[static_cast<size_t>(r)];
        rank.span = rank.ring->text(name);
        mark(r, MarkerKind::kSpanBegin, 0, rank.span);
        rank.span_begin_ticks = ticks(r, rank.host_ns);
    }
}

void TimedJob::end_spans() {
    for (int r = 0; r < size(); ++r) {
        Rank& rank = ranks_[static_cast<size_t>(r)];
        mark(r, MarkerKind::kSpanEnd, rank.span_begin_ticks, rank.span);
        rank.span = 0;
    }
}

uint64_t TimedJob::launches_per_step() const {
    const auto computations = static_cast<uint64_t>(2 * options_.layers + 1);
    const bool more = options_.fault.kind == TimedFault::kManyLaunches;
    const auto events = static_cast<uint64_t>(options_.overlap ? 2 * options_.layers + 2 : 0);
    return computations * kLaunches + events +
           (more ? static_cast<uint64_t>(options_.fault.share * step_ns_ / kLaunchNs) : 0);
}

void TimedJob::launch(int r, double ns) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    StreamWorkEntry& entry = rank.ring->add_work(WorkKind::kKernel, kStream);
    entry.entered_ticks = ticks(r, rank.host_ns);
    entry.thread = rank.thread;
    entry.object = rank.function;
    rank.host_ns += ns;
}

void TimedJob::order(int r, uint64_t event, uint64_t before, uint64_t after) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    for (const auto& [kind, stream] :
         {std::pair(WorkKind::kEventRecord, before), std::pair(WorkKind::kEventWait, after)}) {
        StreamWorkEntry& entry = rank.ring->add_work(kind, stream);
        entry.entered_ticks = ticks(r, rank.host_ns);
        entry.thread = rank.thread;
        entry.object = event;
        rank.host_ns += kEventNs;
    }
}

void TimedJob::kernel(int r, double ns) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const double each_ns = kLaunchNs * jitter();
    for (int i = 0; i < kLaunches; ++i) {
        launch(r, each_ns);
    }
    rank.gpu_ns = std::max(rank.gpu_ns, rank.host_ns) + ns * rank.speed * jitter();
}

void TimedJob::blocking_call(int r, const char* name, double ns) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    CudaCallEntry& entry = rank.ring->add_cuda_call(name);
    entry.entered_ticks = ticks(r, rank.host_ns);
    rank.host_ns += ns;
    entry.returned_ticks = ticks(r, rank.host_ns);
    entry.span = rank.span;
}

void TimedJob::synchronize(int r) {
    const Rank& rank = ranks_[static_cast<size_t>(r)];
    blocking_call(r, "cudaStreamSynchronize", std::max(5'000.0, rank.gpu_ns - rank.host_ns + 10'000));
}

void TimedJob::reduce_beside(int step, int layer) {
    for (int r = 0; r < size(); ++r) {
        Rank& rank = ranks_[static_cast<size_t>(r)];
        order(r, kGradients + static_cast<uint64_t>(layer), kStream, kBeside);
        rank.beside_ns = std::max(rank.beside_ns, rank.gpu_ns);
    }
    collective(kDp, step, OpKind::kAllReduce, options_.bucket, true);
}

void TimedJob::wait_for_reduced() {
    for (int r = 0; r < size(); ++r) {
        Rank& rank = ranks_[static_cast<size_t>(r)];
        order(r, kReduced, kBeside, kStream);
        rank.gpu_ns = std::max(rank.gpu_ns, rank.beside_ns);
    }
}

void TimedJob::collective(Level level, int step, OpKind kind, uint64_t count, bool beside) {
    const TimedFault& fault = options_.fault;
    for (const Group& group : groups_[level]) {
        const auto size = static_cast<double>(group.ranks.size());
        double transfer = kLatencyNs + static_cast<double>(count) * 2 * 2 * (size - 1) / size / kBytesPerNs;
        const bool slow =
            (group.slow_link || (fault.kind == TimedFault::kSlowCollective && level == kDp)) && fault.strikes(step);
        transfer *= (slow ? fault.share : 1) * (options_.noise ? std::exp(0.05 * normal()) : 1);
        double last = 0;
        for (const int r : group.ranks) {
            Rank& rank = ranks_[static_cast<size_t>(r)];
            rank.host_ns += 15'000 * jitter();
            double& stream_ns = beside ? rank.beside_ns : rank.gpu_ns;
            stream_ns = std::max(stream_ns, rank.host_ns + 10'000);
            last = std::max(last, stream_ns);
        }
        for (const int r : group.ranks) {
            Rank& rank = ranks_[static_cast<size_t>(r)];
            CommunicatorRecord& record = rank.ring->communicator(rank.rows[level]);
            CollectiveEntry& entry = rank.ring->add_call(rank.rows[level], kind);
            entry.sequence = record.next_sequence++;
            record.finished = record.next_sequence;
            entry.count = count;
            entry.datatype = Datatype::kBfloat16;
            entry.reduction = Reduction::kSum;
            entry.span = rank.span;
            entry.stream = beside ? kBeside : kStream;
            entry.entered_ticks = ticks(r, rank.host_ns - 12'000);
            entry.returned_ticks = ticks(r, rank.host_ns);
            double& stream_ns = beside ? rank.beside_ns : rank.gpu_ns;
            entry.gpu_started_ticks = seen_ticks(r, stream_ns);
            stream_ns = last + transfer + 5'000 * random();
            entry.gpu_finished_ticks = std::max(entry.gpu_started_ticks, seen_ticks(r, stream_ns));
            entry.state = options_.method == GpuProgressMethod::kOff ? CallState::kEnqueued : CallState::kFinished;
        }
    }
}

void TimedJob::fault_in_span(int r, int step, const std::string& span) {
    const TimedFault& fault = options_.fault;
    constexpr std::string_view kAnywhere[] = {"forward", "backward", "optimizer"};
    const std::string_view where = fault.span.empty() ? kAnywhere[(step / fault.every) % 3] : fault.span;
    if (span != where || !fault.strikes(step, r)) {
        return;
    }
    const double extra = fault.share * step_ns_ * (options_.noise ? std::exp(0.1 * normal()) : 1);
    if (fault.kind == TimedFault::kSlowSpan) {
        host_work(r, extra);
    } else if (fault.kind == TimedFault::kManyLaunches) {
        for (double spent = 0; spent + kLaunchNs <= fault.share * step_ns_; spent += kLaunchNs) {
            launch(r, kLaunchNs);
        }
    } else if (fault.kind == TimedFault::kSlowCopy) {
        blocking_call(r, "cudaMemcpy", extra);
    } else if (fault.kind == TimedFault::kSlowSync) {
        blocking_call(r, "cudaEventSynchronize", extra);
    }
}

void TimedJob::healthy_noise(int r, int step) {
    if (!options_.noise || !options_.hiccups) {
        return;
    }
    if (random() < 0.01) {
        host_work(r, 0.3 * step_ns_);  // garbage collection
    }
    if (random() < 0.003) {
        host_work(r, (0.5 + random()) * step_ns_);  // the loader was not ready
    }
    if (options_.checkpoint_every > 0 && step % options_.checkpoint_every == options_.checkpoint_every - 1) {
        host_work(r, step_ns_ * (0.8 + 0.4 * random()));
    }
}

void TimedJob::play_step(int step) {
    const TimedFault& fault = options_.fault;
    const int number = options_.first_step + step;
    const double load = options_.noise ? 1 + 0.1 * (2 * random() - 1) : 1;  // of all: the batch
    for (int r = 0; r < size(); ++r) {
        if (options_.step_marks) {
            ranks_[static_cast<size_t>(r)].ring->header().step = number;
            mark(r, MarkerKind::kStep, static_cast<uint64_t>(number), 0);
        }
    }
    const auto each = [&](const char* span, double host_share) {
        begin_span(span);
        for (int r = 0; r < size(); ++r) {
            host_work(r, host_share * step_ns_ * jitter());
            fault_in_span(r, step, span);
        }
    };
    const auto compute = [&](uint64_t function, double share) {
        for (int r = 0; r < size(); ++r) {
            ranks_[static_cast<size_t>(r)].function = function;
            const bool slow = fault.kind == TimedFault::kSlowKernels && fault.strikes(step, r);
            const double own = options_.noise ? 1 + 0.02 * (2 * random() - 1) : 1;
            kernel(r, share * step_ns_ * load * own * (slow ? 1 + fault.share / 0.85 : 1));
        }
    };
    each("data", 0.04);
    for (int r = 0; r < size(); ++r) {
        healthy_noise(r, step);
    }
    end_spans();
    each("forward", 0.01);
    for (int layer = 0; layer < options_.layers; ++layer) {
        compute(1, 0.3 / options_.layers);
        if (options_.tp > 1) {
            collective(kTp, step, OpKind::kAllReduce, 1 << 20);
        }
    }
    end_spans();
    each("backward", 0.01);
    for (int layer = 0; layer < options_.layers; ++layer) {
        compute(2, 0.5 / options_.layers);
        if (options_.tp > 1) {
            collective(kTp, step, OpKind::kAllReduce, 1 << 20);
        }
        if (options_.overlap) {
            reduce_beside(step, layer);
        }
    }
    if (options_.overlap) {
        wait_for_reduced();
    } else {
        collective(kDp, step, OpKind::kReduceScatter, 1 << 23);
        collective(kDp, step, OpKind::kAllReduce, 1 << 24);
    }
    end_spans();
    each("optimizer", 0.01);
    collective(kWorld, step, OpKind::kAllReduce, 1);
    compute(3, 0.05);
    for (int r = 0; r < size(); ++r) {
        synchronize(r);
    }
    end_spans();
}

void TimedJob::write(const std::string& directory) {
    for (int r = 0; r < size(); ++r) {
        char name[64];
        std::snprintf(name, sizeof(name), "/0/rank%05d.0.titan", r);
        write_file(directory + "/" + options_.run + name, make_dump(ring(r), dump_meta(now_ticks(r), "signal", true)));
    }
}

}  // namespace titan::synth
