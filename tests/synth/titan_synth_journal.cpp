// Writes the journals of an invented job of any size, as the tracers of its nodes do: an append a minute of all ranks
// of a node, with an index in front, into files that are replaced when full.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "formats/container/journal_writer.h"
#include "formats/container/section_writer.h"
#include "host/command_line.h"
#include "host/program.h"

#include "ring_builder.h"

using namespace titan::synth;
namespace format = titan::format;

namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr int kRanksOfNode = 8;
constexpr const char* kNames[] = {"",       "",        "loss",      "label", "worth",  "data_loading",
                                  "h2d",    "forward", "attention", "mlp",   "logits", "backward",
                                  "reduce", "clip",    "optimizer", "dp:0",  "tp:0"};
constexpr format::OpKind kOperations[] = {format::OpKind::kAllGather, format::OpKind::kReduceScatter,
                                          format::OpKind::kAllReduce, format::OpKind::kBroadcast};
constexpr size_t kKinds = std::size(kOperations);
constexpr uint64_t kCallsOfAKind = 25;
constexpr uint32_t kLoss = 2, kLabel = 3, kWorth = 4, kFirstSpan = 5, kDp = 15;
constexpr uint32_t kSpans = kDp - kFirstSpan;

struct Options {
    std::string directory;
    int ranks = 16;
    int slow_rank = -1;  // its data_loading takes twice as long
    int steps = 1000;
    int first_step = 0;
    uint64_t step_ms = 1000;
    uint64_t every_s = 60;
    uint64_t file_mib = 8;
};

size_t copy_text(void*, uint32_t id, char* into, size_t capacity_bytes) {
    return std::string_view(kNames[id]).copy(into, capacity_bytes);
}
const format::MarkerWords kWords{nullptr, copy_text, [](void*, uint32_t) { return format::MarkerSiteRecord{}; }};

RingSpec spec_of(const Options& options, int rank) {
    RingSpec spec;
    const int node = rank / kRanksOfNode;
    spec.rank = rank;
    spec.world_size = options.ranks;
    spec.pid = 1000 + rank % kRanksOfNode;
    spec.host = "node-" + std::to_string(node);
    char boot[40];
    std::snprintf(boot, sizeof(boot), "%08x-synthetic-boot", static_cast<unsigned>(node));
    spec.boot_id = boot;
    return spec;
}

class Rank {
  public:
    Rank(const Options& options, int rank)
        : ring_(spec_of(options, rank)),
          options_(options),
          is_slow_(rank == options.slow_rank),
          random_(static_cast<uint64_t>(rank) * 7919 + 1),
          step_(options.first_step) {
        add(format::MarkerKind::kLabel, kLabel, 0).text = kWorth;
    }

    format::RingHeader& header() { return ring_.header(); }
    // All of the steps until then.
    void go_on(uint64_t until_ticks) {
        while (now_ < until_ticks && step_ < options_.first_step + options_.steps) {
            mark_step();
        }
        header().step = step_ - 1;
        header().step_ticks = header().heartbeat_ticks = now_;
        header().last_anchor.realtime_ns = kEpochRealtimeNs + now_ - kEpochTicks;
        header().last_anchor.ticks = now_;
    }
    bool has_ended() const { return step_ == options_.first_step + options_.steps; }

    std::vector<format::MarkerEntry> markers;
    std::vector<format::StepSum> sums;
    std::vector<format::StepCalls> calls;  // of each step as many as there are operations
    uint64_t next_marker = 0, next_call = 0;

  private:
    format::MarkerEntry& add(format::MarkerKind kind, uint32_t name, uint64_t value) {
        format::MarkerEntry& marker = markers.emplace_back();
        marker = {};
        marker.kind = kind;
        marker.name = name;
        marker.value = value;
        marker.ticks = now_;
        marker.thread = static_cast<uint32_t>(header().pid);
        marker.step = header().step;
        return marker;
    }
    // Up to a tenth less or more.
    uint64_t about(uint64_t ticks) {
        random_ = random_ * 6364136223846793005 + 1442695040888963407;
        return ticks * (900 + (random_ >> 33) % 200) / 1000;
    }
    void mark_step() {
        add(format::MarkerKind::kStep, 0, static_cast<uint64_t>(step_));
        header().step = step_;
        const uint64_t begun = now_;
        for (uint32_t span = 0; span < kSpans; ++span) {
            const uint64_t span_begun = now_;
            const uint32_t number = ++span_;
            add(format::MarkerKind::kSpanBegin, kFirstSpan + span, 0).span = number;
            now_ += about(options_.step_ms * kMillisecond / kSpans * (is_slow_ && span == 0 ? 2 : 1));
            add(format::MarkerKind::kSpanEnd, kFirstSpan + span, span_begun).span = number;
        }
        const double loss = 10.0 / (1.0 + static_cast<double>(step_) / 1000);
        add(format::MarkerKind::kMetric, kLoss, std::bit_cast<uint64_t>(loss));
        sums.push_back({step_, kKinds * kCallsOfAKind, 100 << 20, about(5 * kMillisecond), about(300 * kMillisecond),
                        kKinds * kCallsOfAKind, begun, now_});
        for (size_t i = 0; i < kKinds; ++i) {
            const uint64_t late = kCallsOfAKind * about(options_.step_ms * kMillisecond * (i + 1) / 10);
            calls.push_back({step_, 1 + i % 2, kOperations[i], kCallsOfAKind, 25 << 20, about(kMillisecond),
                             about(75 * kMillisecond), kCallsOfAKind, about(5 * kMillisecond), begun, late});
        }
        ++step_;
    }

    RingBuilder ring_;
    const Options& options_;
    bool is_slow_;
    uint64_t random_;
    int64_t step_;
    uint64_t now_ = kEpochTicks;
    uint32_t span_ = 0;
};

// A node's files.
class Node {
  public:
    Node(const Options& options, int node)
        : options_(options), node_(node), workspace_(format::section_workspace_bytes()) {
        for (int rank = kRanksOfNode * node; rank < std::min(options.ranks, kRanksOfNode * (node + 1)); ++rank) {
            ranks_.push_back(std::make_unique<Rank>(options, rank));
        }
    }

    void write() {
        for (uint64_t until = kEpochTicks; !all_ended_;) {
            until += options_.every_s * kSecond;
            all_ended_ = true;
            for (const auto& rank : ranks_) {
                rank->go_on(until);
                all_ended_ = all_ended_ && rank->has_ended();
            }
            for (const auto& rank : ranks_) {
                add_blocks(*rank);
            }
            append();
        }
    }

  private:
    void add_blocks(Rank& rank) {
        if (rank.has_ended()) {
            rank.header().state = format::ProcessState::kExited;
            rank.header().exit_status_next = 1;
        }
        std::span<format::MarkerEntry> markers(rank.markers);
        std::span<format::StepSum> sums(rank.sums);
        std::span<format::StepCalls> calls(rank.calls);
        while (!markers.empty() || !sums.empty()) {
            const auto some = sums.first(std::min<size_t>(sums.size(), format::kJournalBlockCalls / kKinds));
            format::StepCommunicator communicators[] = {{1, options_.ranks, kDp}, {2, kRanksOfNode, kDp + 1}};
            const uint64_t next_call = rank.next_call + kKinds * kCallsOfAKind * some.size();
            const size_t packed = block_->pack(
                rank.header(), {rank.next_marker, markers},
                {rank.next_call, next_call, some, calls.first(kKinds * some.size()), communicators}, kWords);
            const size_t before = blocks_.size();
            add_section(format::JournalSection::kBlock, block_->bytes(), blocks_);
            index_->add(rank.header(), block_->row(), blocks_.size() - before);
            rank.next_marker += packed;
            rank.next_call = next_call;
            markers = markers.subspan(packed);
            sums = sums.subspan(some.size());
            calls = calls.subspan(kKinds * some.size());
            if (index_->is_full()) {
                append();
            }
        }
        rank.markers.clear();
        rank.sums.clear();
        rank.calls.clear();
    }

    void append() {
        if (index_->is_empty()) {
            return;
        }
        std::vector<char> section;
        add_section(format::JournalSection::kIndex, index_->pack(), section);
        const size_t size_bytes = section.size() + blocks_.size();
        if (!file_.is_open() || file_bytes_ + size_bytes > options_.file_mib << 20) {
            begin_file();
        }
        file_.write(section.data(), static_cast<std::streamsize>(section.size()));
        file_.write(blocks_.data(), static_cast<std::streamsize>(blocks_.size()));
        if (!file_) {
            throw std::runtime_error("the disk is full");
        }
        file_bytes_ += size_bytes;
        index_->clear();
        blocks_.clear();
    }

    void begin_file() {
        const RingSpec spec = spec_of(options_, kRanksOfNode * node_);
        const format::JournalName name(spec.host.c_str(), spec.boot_id.c_str(), number_++);
        file_.close();
        file_.open(options_.directory + "/synth/0/" + name.text, std::ios::binary | std::ios::trunc);
        const format::DumpHeader header =
            format::make_file_header(format::kJournalMagic, format::kJournalMajor, format::kJournalMinor);
        file_.write(reinterpret_cast<const char*>(&header), sizeof(header));
        file_bytes_ = sizeof(header);
    }

    void add_section(format::JournalSection kind, std::span<const unsigned char> raw, std::vector<char>& into) {
        const auto append = [](void* to, const void* bytes, size_t size_bytes) {
            const auto* const begin = static_cast<const char*>(bytes);
            auto& grown = *static_cast<std::vector<char>*>(to);
            grown.insert(grown.end(), begin, begin + size_bytes);
            return true;
        };
        format::SectionWriter sections(workspace_.data(), workspace_.size(), append, &into);
        if (!sections.add(static_cast<format::SectionKind>(kind), raw.data(), raw.size(), 0)) {
            throw std::runtime_error("a section cannot be made");
        }
    }

    const Options& options_;
    int node_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    bool all_ended_ = false;
    std::vector<char> workspace_;
    std::unique_ptr<format::JournalBlock> block_ = std::make_unique<format::JournalBlock>();
    std::unique_ptr<format::BlockIndex> index_ = std::make_unique<format::BlockIndex>();
    std::vector<char> blocks_;
    std::ofstream file_;
    uint64_t file_bytes_ = 0;
    uint32_t number_ = 0;
};

int run_command_line(int argc, char** argv) {
    titan::CommandLine app("titan-synth-journal", TITAN_VERSION, "Writes the journals of an invented training job.",
                           "");
    Options options;
    app.option("DIR", options.directory, "dump directory to write").required();
    app.option("--ranks", options.ranks, "of the job, eight a node").between(1, 65536).show_default();
    app.option("--steps", options.steps, "of the job, with ten spans and a metric in each").positive().show_default();
    app.option("--first-step", options.first_step, "its number; the journal of the steps before is gone");
    app.option("--step-ms", options.step_ms, "length of a step").between(1, 1'000'000).show_default();
    app.option("--every-s", options.every_s, "from append to append").between(1, 1'000'000).show_default();
    app.option("--file-mib", options.file_mib, "where a new file is begun").between(1, 1 << 10).show_default();
    app.option("--slow-rank", options.slow_rank, "takes twice as long to load data");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    std::filesystem::create_directories(options.directory + "/synth/0");
    const int nodes = (options.ranks + kRanksOfNode - 1) / kRanksOfNode;
    std::atomic<int> next{0};
    const auto work = [&] {
        for (int node = next++; node < nodes; node = next++) {
            Node(options, node).write();
        }
    };
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) {
        threads.emplace_back(work);
    }
    work();
    return 0;
}

}  // namespace

int main(int argc, char** argv) { return titan::run_program("titan-synth-journal", run_command_line, argc, argv); }
