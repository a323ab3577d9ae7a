// The order of a process's streams: what decoding reads out of records and waits of events, and what the replay of
// steps makes of it where communication runs beside computation.
#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "slow_causes.h"
#include "step_graph.h"
#include "timing.h"
#include "timing_job.h"

namespace {

using namespace titan;
using analyzer::CauseClass;
using analyzer::SlowCauses;
using analyzer::StreamPiece;
using format::GpuProgressMethod;
using format::OpKind;
using format::WorkKind;
using synth::TimedFault;
using synth::TimedOptions;

constexpr uint64_t kCompute = 0x7000;
constexpr uint64_t kBeside = 0x7100;
constexpr uint64_t kThird = 0x7200;
constexpr int kFewSteps = 4;

// One rank's ring, written by hand: each thing comes a microsecond after the one before.
class Streams {
  public:
    explicit Streams(const synth::RingSpec& spec = {}) : ring_(spec) { row_ = ring_.add_communicator(1, 1, 0, "all"); }

    void step() {
        format::MarkerEntry& entry = ring_.add_marker(format::MarkerKind::kStep);
        entry.ticks = tick();
        entry.value = static_cast<uint64_t>(ring_.header().step = steps_++);
        entry.thread = kThread;
    }
    void call(uint64_t stream, OpKind kind = OpKind::kAllReduce, uint32_t group = 0) {
        format::CollectiveEntry& entry = ring_.add_call(row_, kind);
        entry.sequence = ring_.communicator(row_).next_sequence++;
        entry.stream = stream;
        entry.group = group;
        entry.entered_ticks = tick();
        entry.returned_ticks = entry.entered_ticks + 100;
        entry.state = format::CallState::kFinished;
    }
    void kernel(uint64_t stream, uint64_t function = 1) { work(WorkKind::kKernel, stream, function); }
    void record(uint64_t event, uint64_t stream) { work(WorkKind::kEventRecord, stream, event); }
    void wait(uint64_t event, uint64_t stream) { work(WorkKind::kEventWait, stream, event); }
    void order(uint64_t event, uint64_t before, uint64_t after) {
        record(event, before);
        wait(event, after);
    }
    void all_at_once() { every_ns_ = 0; }
    void one_by_one() { every_ns_ = 1000; }

    analyzer::Process process() const {
        analyzer::OpenedSource opened;
        opened.image = *format::RingImage::open(ring_.bytes());
        opened.now_ticks = now_ + synth::kSecond;
        return analyzer::decode_process(opened);
    }
    std::vector<StreamPiece> pieces() const { return process().step_streams; }

  private:
    static constexpr uint32_t kThread = 1000;

    uint64_t tick() { return now_ += every_ns_; }
    void work(WorkKind kind, uint64_t stream, uint64_t object) {
        format::StreamWorkEntry& entry = ring_.add_work(kind, stream);
        entry.entered_ticks = tick();
        entry.object = object;
    }

    synth::RingBuilder ring_;
    uint32_t row_ = 0;
    uint64_t now_ = synth::kEpochTicks + synth::kSecond;
    uint64_t every_ns_ = 1000;
    int steps_ = 0;
};

using Step = std::function<void(Streams&, int)>;

// `kFewSteps` of them, and the mark that ends the last one.
std::vector<StreamPiece> pieces_of(const Step& step, const synth::RingSpec& spec = {}) {
    Streams streams(spec);
    for (int i = 0; i < kFewSteps; ++i) {
        streams.step();
        step(streams, i);
    }
    streams.step();
    return streams.pieces();
}

synth::RingSpec large() {
    synth::RingSpec spec;
    spec.stream_work = uint64_t{1} << 18;
    return spec;
}

// "work 2 0 | call 1 1": what each piece waits for.
std::string text_of(const std::vector<StreamPiece>& pieces) {
    std::string text;
    for (const StreamPiece& piece : pieces) {
        text += text.empty() ? "" : " | ";
        text += piece.is_call() ? "call " : piece.kernels != 0 ? "work " : "join ";
        text += std::to_string(piece.waits_for) + " " + std::to_string(piece.and_for);
    }
    return text;
}

// Gradients of two layers, the second sum behind the first, then the optimizer.
void two_buckets(Streams& streams, int) {
    for (const uint64_t event : {1, 2}) {
        streams.kernel(kCompute, event);
        streams.order(event, kCompute, kBeside);
        streams.call(kBeside);
    }
    streams.order(3, kBeside, kCompute);
    streams.kernel(kCompute, 3);
}

constexpr const char* kTwoBuckets = "work 1 0 | call 3 1 | work 2 0 | call 2 1 | work 2 1";

constexpr int kSlowRank = 3;

TimedOptions overlapping_job(uint64_t seed) {
    TimedOptions options;
    options.seed = seed;
    options.hosts = 2 + static_cast<int>(seed % 3);
    options.tp = seed % 2 == 0 ? 1 : 2;
    options.layers = 6;
    options.overlap = true;
    options.clock_offset_ms = 40;
    options.clock_drift_ppm = 10;
    options.noise = false;
    options.checkpoint_every = 0;
    return options;
}

TimedOptions with_slow_kernels(TimedOptions options, double times) {
    options.fault.kind = TimedFault::kSlowKernels;
    options.fault.rank = kSlowRank;
    options.fault.share = (times - 1) * 0.85;  // of a step, whose kernels take 0.85
    return options;
}

struct PlayedJob {
    explicit PlayedJob(const TimedOptions& options) : job(options), run(test::run_of(job)) {
        causes = analyzer::slow_causes(run, analyzer::analyze_timing(run));
    }
    synth::TimedJob job;
    analyzer::Run run;
    SlowCauses causes;
};

}  // namespace

TEST_CASE("streams: calls wait for the work that an event tells, and work for calls") {
    // The optimizer and the first layer of the next step are two pieces: the host is between them.
    const auto pieces = pieces_of(two_buckets);
    REQUIRE(text_of(pieces) == kTwoBuckets);
    CHECK(pieces[1].kind == OpKind::kAllReduce);
    CHECK(pieces[0].kernels != pieces[2].kernels);
}

TEST_CASE("streams: events that nobody waits for make no pieces") {
    CHECK(text_of(pieces_of([](Streams& streams, int step) {
              streams.record(7, kCompute);
              streams.kernel(kCompute, 9);
              streams.record(8, kCompute);
              streams.wait(8, kCompute);  // its own stream comes to it anyway
              two_buckets(streams, step);
              streams.record(9, kBeside);
          })) == kTwoBuckets);
}

TEST_CASE("streams: what waits for more than one event waits for a piece of no work") {
    CHECK(text_of(pieces_of([](Streams& streams, int) {
              streams.kernel(kCompute);
              streams.kernel(kThird);
              streams.record(1, kCompute);
              streams.record(2, kThird);
              streams.wait(1, kBeside);
              streams.wait(2, kBeside);
              streams.call(kBeside);
              streams.record(3, kBeside);
              streams.wait(3, kCompute);
              streams.wait(3, kThird);
          })) == "work 4 1 | work 4 2 | join 1 2 | call 4 1");
}

TEST_CASE("streams: an event of the step before is waited for in the next") {
    CHECK(text_of(pieces_of([](Streams& streams, int) {
              streams.wait(1, kBeside);
              streams.call(kBeside);
              streams.order(2, kBeside, kCompute);
              streams.kernel(kCompute);
              streams.record(1, kCompute);
          })) == "call 2 1 | work 2 1");
}

TEST_CASE("streams: calls of a group are one piece, also where each of them waits for an event") {
    CHECK(text_of(pieces_of([](Streams& streams, int step) {
              streams.kernel(kCompute);
              for (int i = 0; i < 3; ++i) {
                  streams.order(1, kCompute, kBeside);
                  streams.call(kBeside, OpKind::kAllGather, static_cast<uint32_t>(step) + 1);
              }
              streams.order(2, kBeside, kCompute);
          })) == "work 2 1 | call 2 1");
}

TEST_CASE("streams: work that leads to no call is left out") {
    CHECK(text_of(pieces_of([](Streams& streams, int step) {
              two_buckets(streams, step);
              streams.order(5, kBeside, kThird);  // statistics
              streams.kernel(kThird);
              streams.order(6, kThird, 0x7300);
              streams.kernel(0x7300);
          })) == kTwoBuckets);
}

TEST_CASE("streams: the newest two steps in a row that are ordered alike tell the order") {
    const auto with_extra_call_in = [](int which) {
        return text_of(pieces_of([which](Streams& streams, int step) {
            two_buckets(streams, step);
            if (step == which) {
                streams.call(kThird);
            }
        }));
    };
    CHECK(with_extra_call_in(kFewSteps - 1) == kTwoBuckets);
    CHECK(with_extra_call_in(kFewSteps - 2) == "");
}

TEST_CASE("streams: where their work is overwritten, the steps that are left tell the order, or nothing does") {
    synth::RingSpec spec;
    spec.stream_work = 32;  // nine things a step
    CHECK(text_of(pieces_of(two_buckets, spec)) == kTwoBuckets);
    spec.stream_work = 16;
    CHECK(pieces_of(two_buckets, spec).empty());
}

TEST_CASE("streams: where all calls of an unmarked job are equal, the launches between them tell where a step begins") {
    const auto steps_of = [](int launches_first) {
        Streams streams;
        for (int step = 0; step < 12; ++step) {
            for (int bucket = 0; bucket < 3; ++bucket) {
                const int logged = step % 5 == 0 ? 1 : 0;  // a few more launches make no other step
                for (int i = 0; i < (bucket == 0 ? launches_first + logged : 2); ++i) {
                    streams.kernel(kCompute);
                }
                streams.call(kCompute);
            }
        }
        return streams.process();
    };
    const analyzer::Process process = steps_of(20);
    CHECK(process.steps_by_period);
    REQUIRE(process.steps.size() >= 9);
    for (size_t i = 1; i < process.steps.size(); ++i) {
        CHECK(process.steps[i].first_call - process.steps[i - 1].first_call == 3);
        CHECK(process.steps[i].step == process.steps[i - 1].step + 1);
    }
    const analyzer::Process alike = steps_of(2);  // nothing tells the calls apart: each counts as a step
    REQUIRE(alike.steps.size() >= 30);
    for (size_t i = 1; i < alike.steps.size(); ++i) {
        CHECK(alike.steps[i].first_call - alike.steps[i - 1].first_call == 1);
    }
}

TEST_CASE("streams: records that make no sense make no order, and no harm") {
    CHECK(text_of(pieces_of([](Streams& streams, int) {
              streams.wait(77, kBeside);  // never recorded
              streams.record(78, kCompute);
              streams.wait(78, kBeside);  // nothing is before it
              streams.call(kBeside);
          })) == "call 1 0");

    const auto chain = [](uint64_t length) {
        return pieces_of(
            [length](Streams& streams, int) {
                for (uint64_t i = 0; i < length; ++i) {
                    streams.kernel(i % 2 == 0 ? kCompute : kThird);
                    streams.order(1, i % 2 == 0 ? kCompute : kThird, i % 2 == 0 ? kThird : kCompute);
                }
                streams.order(2, kCompute, kBeside);
                streams.call(kBeside);
            },
            large());
    };
    CHECK(chain(4000).size() > 4000);
    CHECK(chain(10'000).empty());

    const auto fan_in = pieces_of(
        [](Streams& streams, int) {
            for (uint64_t i = 0; i < 3000; ++i) {
                streams.kernel(0x10000 + i);
                streams.order(i, 0x10000 + i, kBeside);
                streams.wait(i, kBeside);
            }
            streams.call(kBeside);
        },
        large());
    CHECK(fan_in.size() == 3000 + 2999 + 1);
    for (size_t i = 0; i < fan_in.size(); ++i) {
        CHECK(fan_in[i].waits_for <= fan_in.size());
        CHECK(fan_in[i].and_for <= fan_in.size());
    }

    Streams at_once;
    at_once.all_at_once();
    for (int i = 0; i < kFewSteps; ++i) {
        at_once.step();
        two_buckets(at_once, i);
    }
    at_once.step();
    CHECK(at_once.pieces().empty());
    // Where only what is in a step came at once, nobody knows in which order calls and work did.
    CHECK(pieces_of([](Streams& streams, int step) {
              streams.all_at_once();
              two_buckets(streams, step);
              streams.one_by_one();
          }).size() <= 8);
}

TEST_CASE("streams: a slow GPU beside whose work gradients are reduced is told, and what the job is without it") {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        for (const GpuProgressMethod method : {GpuProgressMethod::kTiming, GpuProgressMethod::kWrites}) {
            TimedOptions options = overlapping_job(seed);
            options.method = method;
            const PlayedJob even(options);
            CAPTURE(seed);
            CAPTURE(method == GpuProgressMethod::kWrites);
            CHECK(even.causes.causes.empty());
            for (const double times : {1.05, 1.3, 2.0}) {
                CAPTURE(times);
                if (method == GpuProgressMethod::kWrites && times < 1.1) {
                    continue;  // from one call to the next less than a quarter of the time between two looks
                }
                const PlayedJob slow(with_slow_kernels(options, times));
                REQUIRE(!slow.causes.causes.empty());
                const analyzer::SlowCause& cause = slow.causes.causes.front();
                CHECK(cause.of_class == CauseClass::kSlowRankGpu);
                CHECK(cause.ranks == std::vector<int>{kSlowRank});
                CHECK(cause.without_ns() ==
                      doctest::Approx(even.causes.step_ns).epsilon(method == GpuProgressMethod::kTiming ? 0.05 : 0.1));
            }
        }
    }
}

TEST_CASE("streams: a step of other calls is ordered by its calls alone") {
    const TimedOptions options = overlapping_job(2);
    synth::TimedJob job(with_slow_kernels(options, 1.3));
    for (int rank = 0; rank < job.size(); ++rank) {
        const uint64_t calls = job.ring(rank).next_ticket() / static_cast<uint64_t>(options.steps);
        for (const uint64_t step : {20, 21, 40}) {
            job.ring(rank).call(step * calls + 2).kind = OpKind::kBroadcast;
        }
    }
    const analyzer::Run run = test::run_of(job);
    CHECK(!run.processes.front().step_streams.empty());
    const SlowCauses causes = analyzer::slow_causes(run, analyzer::analyze_timing(run));
    REQUIRE(!causes.causes.empty());
    CHECK(causes.causes.front().of_class == CauseClass::kSlowRankGpu);
    CHECK(causes.causes.front().ranks == std::vector<int>{kSlowRank});
    CHECK(causes.causes.front().without_ns() < causes.step_ns);
}

TEST_CASE("streams: an order that fits no call does the replay no harm") {
    std::minstd_rand random(7);
    const auto below = [&](size_t limit) { return static_cast<uint32_t>(random() % limit); };
    TimedOptions options = overlapping_job(1);
    options.steps = 12;
    synth::TimedJob job(options);
    analyzer::Run run = test::run_of(job);
    const std::vector<StreamPiece> sound = run.processes.front().step_streams;
    for (int round = 0; round < 40; ++round) {
        for (analyzer::Process& process : run.processes) {
            std::vector<StreamPiece>& pieces = process.step_streams;
            pieces = sound;
            pieces.resize(round % 2 == 0 ? sound.size() : 1 + below(200));
            for (StreamPiece& piece : pieces) {
                if (below(3) == 0) {
                    piece.waits_for = static_cast<uint16_t>(below(pieces.size() + 1));
                    piece.and_for = static_cast<uint16_t>(below(pieces.size() + 1));
                }
                if (below(9) == 0) {
                    piece.row = below(4) == 0 ? format::kNoIndex : below(process.members.size());
                    piece.kernels = below(4);
                }
            }
        }
        CHECK(analyzer::slow_causes(run, analyzer::analyze_timing(run)).step_ns > 0);
    }
    // Thousands of pieces to a call are no order that the replay takes up.
    std::vector<StreamPiece> long_one(8191);
    long_one.push_back(sound[1]);
    for (analyzer::Process& process : run.processes) {
        process.step_streams = long_one;
    }
    CHECK(!analyzer::step_graph(run, analyzer::analyze_timing(run).clocks).by_streams);
}

TEST_CASE("streams: where one rank alone has other work between its calls, all are compared by their calls") {
    synth::TimedJob job(overlapping_job(1));
    analyzer::Run run = test::run_of(job);
    const auto by_streams = [&run] {
        return analyzer::step_graph(run, analyzer::analyze_timing(run).clocks).by_streams;
    };
    CHECK(by_streams());
    std::vector<StreamPiece>& pieces = run.processes[2].step_streams;
    pieces.insert(pieces.begin(), {.kernels = 7, .waits_for = 1});
    CHECK(!by_streams());
}
