// One target for each reader: any bytes as its file, then what the analyzer makes of what was read.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "analysis.h"
#include "condense.h"
#include "decode_process.h"
#include "digests.h"
#include "formats/container/dump_reader.h"
#include "formats/container/journal_reader.h"
#include "formats/fr/read.h"
#include "formats/ring/journal_image.h"
#include "formats/ring/ring_image.h"
#include "fr_file.h"
#include "fr_process.h"
#include "link_run.h"
#include "named_stacks.h"
#include "show.h"
#include "stacks_report.h"
#include "structured_log.h"
#include "take_record.h"
#include "thread_position.h"
#include "witness.h"

namespace titan::fuzz {
namespace {

// Any bytes as a ring: every reader of RingImage, then the analysis.
std::string read_ring(std::span<const unsigned char> file) {
    const auto image = format::RingImage::open(std::as_bytes(file));
    if (!image) {
        return image.error().text();
    }
    size_t calls = 0;
    image->for_each_collective([&](uint64_t, const format::CollectiveEntry&) { ++calls; });
    image->for_each_cuda_call([](uint64_t, const format::CudaCallEntry&) {});
    image->for_each_marker([](uint64_t, const format::MarkerEntry&) {});
    image->for_each_stream_work([](uint64_t, const format::StreamWorkEntry&) {});
    image->for_each_channel(
        [&](uint64_t, const format::ChannelEntry& entry) { image->launch_marks(entry.collective); });
    for (uint32_t id = 0; id < 300; ++id) {
        image->text(id);
    }
    analyzer::OpenedSource opened;
    opened.image = *image;
    opened.now_ticks = image->header().heartbeat_ticks + 20'000'000'000;
    opened.liveness = analyzer::Liveness::kAlive;
    std::vector<analyzer::Process> processes;
    processes.push_back(analyzer::decode_process(opened));
    analyzer::Symbols symbols(analyzer::Symbols::Search::kNearby);
    analyzer::decode_samples(*image, symbols, processes.front());
    analyze(std::move(processes));
    return "read: " + std::to_string(calls) + " calls";
}

// Any bytes as a dump: the container, the meta section, the ring in it, then the analysis.
std::string read_dump(std::span<const unsigned char> file) {
    static ImageBuffer& memory = *new ImageBuffer;
    const std::string path = path_with(file);
    (void)format::read_ring_header(*OpenFile::open(path));
    (void)format::read_dump_meta(std::as_bytes(file));
    const auto opened = analyzer::open_source(path, memory);
    if (!opened) {
        return opened.error().text();
    }
    std::vector<analyzer::Process> processes;
    processes.push_back(analyzer::decode_process(*opened));
    const size_t calls = processes[0].entries.size();
    analyzer::condense(processes[0], {.newest = 8, .newest_of_member = 2});
    analyze(std::move(processes));
    return "read: " + std::to_string(calls) + " calls" +
           (opened->problems.empty() ? "" : "; " + opened->problems.front());
}

// Any bytes as a digest: the container, the packed processes in it, then the analysis.
std::string read_digest(std::span<const unsigned char> file) {
    auto digest = analyzer::read_digest_file(path_with(file));
    if (!digest) {
        return digest.error().text();
    }
    const size_t processes = digest->processes.size();
    if (processes != 0) {
        analyze(std::move(digest->processes));
    }
    return "read: " + std::to_string(processes) + " processes" +
           (digest->problems.empty() ? "" : "; " + digest->problems.front());
}

// Any bytes as a journal: its index, its blocks, and these as rings.
std::string read_journal(std::span<const unsigned char> file) {
    const std::span<const std::byte> bytes = std::as_bytes(file);
    const auto index = format::index_journal(bytes);
    if (!index) {
        return index.error().text();
    }
    size_t markers = 0;
    size_t text_bytes = 0;
    size_t sums = 0;
    std::vector<std::byte> memory;
    std::string problem = index->problems.empty() ? "" : index->problems.front();
    for (const format::JournalPart& part : index->parts) {
        const auto block =
            format::read_block(bytes.subspan(part.offset_bytes, part.size_bytes), index->processes[part.process], part);
        const auto image = block ? format::image_of(*block, memory) : block.error();
        if (!image) {
            problem = image.error().text();
            continue;
        }
        sums += block->calls.size() + block->health.size();
        format::StepCalls all{};
        for (const format::StepCalls& calls : block->calls) {
            add_sum(all, calls);
            sums += all.entered_ticks() == 0 ? 1 : 0;
        }
        for (const auto& named : block->communicators) {
            text_bytes += block->text(named.name).size();
        }
        for (const auto& named : block->health) {
            text_bytes += block->text(named.name).size();
        }
        image->for_each_marker([&](uint64_t, const format::MarkerEntry& entry) {
            ++markers;
            text_bytes += image->text(entry.name).size() + image->text(image->marker_site(entry.site).place).size();
        });
    }
    return "read: " + std::to_string(markers) + " markers" + (text_bytes != 0 ? " with names" : "") +
           (sums != 0 ? " and sums" : "") + (problem.empty() ? "" : "; " + problem);
}

// Any bytes as the image of stacks in a dump: every report of them, then what a verdict and a digest keep of them.
std::string read_stacks(std::span<const unsigned char> file) {
    analyzer::Symbols symbols(analyzer::Symbols::Search::kNearby);
    auto stacks = analyzer::read_stacks(std::as_bytes(file), symbols, [](const auto&) { return true; });
    if (!stacks) {
        return stacks.error().text();
    }
    size_t frames = 0;
    for (const analyzer::ThreadStack& thread : stacks->threads) {
        frames += thread.merged.frames.size();
    }
    const size_t threads = stacks->threads.size();
    const std::vector all{std::move(*stacks)};
    for (const bool list : {false, true}) {
        analyzer::stacks_report(all, symbols.problems(), {.list = list, .all_threads = true}, {});
    }
    analyzer::stacks_json_report(all, symbols.problems());
    std::vector<analyzer::Process> processes(1);
    processes.front().pid = 100;
    processes.front().texts.emplace_back();
    processes.front().liveness = analyzer::Liveness::kAlive;
    analyzer::decode_positions(std::as_bytes(file), symbols, processes.front());
    analyze(std::move(processes));
    return "read: " + std::to_string(threads) + " threads, " + std::to_string(frames) + " frames";
}

// What the analyzer does with a Flight Recorder dump, once its encoding is read.
std::string read_tree(const format::fr::Tree& tree, size_t file_bytes) {
    const auto dump = format::fr::to_dump(tree, file_bytes);
    if (!dump) {
        return dump.error().text();
    }
    analyzer::Run run;
    analyzer::GroupRanks groups;
    for (const int rank : {0, 1}) {
        run.processes.push_back(analyzer::process_of_dump(*dump, rank, 1'795'000'001'000'000'000, groups));
    }
    analyzer::complete_flight_recorder(run, groups);
    analyzer::link(run);
    analyzer::warn_of_what_it_hides(run);
    report(run);
    analyzer::show(run, {}, [](const std::string&) {});
    return "read: " + std::to_string(dump->entries.size()) + " calls";
}

// Any bytes as a Flight Recorder dump in pickle, then the analysis.
std::string read_pickle(std::span<const unsigned char> file) {
    static format::fr::Tree& tree = *new format::fr::Tree;
    const auto error = format::fr::read_pickle(std::as_bytes(file), tree);
    return error ? error->text() : read_tree(tree, file.size());
}

// Any bytes as a Flight Recorder dump in json, then the analysis.
std::string read_json(std::span<const unsigned char> file) {
    static format::fr::Tree& tree = *new format::fr::Tree;
    const auto error = format::fr::read_json(std::as_bytes(file), tree);
    return error ? error->text() : read_tree(tree, file.size());
}

// Any bytes as an archive of records.
std::string read_archive(std::span<const unsigned char> file) {
    auto archive = analyzer::Archive::open(std::as_bytes(file));
    if (!archive) {
        return archive.error().text();
    }
    static analyzer::Symbols& symbols = *new analyzer::Symbols(analyzer::Symbols::Search::kNearby);
    static analyzer::GroupRanks& groups = *new analyzer::GroupRanks;
    static analyzer::Loader& with = *new analyzer::Loader{symbols, groups};
    analyzer::LoadOutcome outcome;
    analyzer::load_archive("job.tar", *archive, with, outcome);
    return outcome.problems.empty() ? "read: " + std::to_string(outcome.processes.size()) + " processes"
                                    : outcome.problems.front();
}

// Any bytes as a file that lies beside the dumps: a launcher's log, an error file, a scheduler's lines.
std::string read_witness(std::span<const unsigned char> file) {
    analyzer::WitnessFile witness;
    witness.path = "/logs/run_x/attempt_0/2/error.json";
    witness.label = "error.json";
    witness.text = {reinterpret_cast<const char*>(file.data()), file.size()};
    return fmt::format("read: {}", analyzer::testimonies_of(witness).size());
}

// Any bytes as a log of torchtitan's structured logger, and its markers as rings.
std::string read_log(std::span<const unsigned char> file) {
    const analyzer::LogBytes bytes{[file](uint64_t offset_bytes, void* into, size_t size_bytes) {
                                       const size_t from = std::min<uint64_t>(offset_bytes, file.size());
                                       const size_t size = std::min(size_bytes, file.size() - from);
                                       std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(from), size,
                                                   static_cast<unsigned char*>(into));
                                       return size;
                                   },
                                   file.size()};
    const auto log = analyzer::open_structured_log(bytes);
    if (!log) {
        return log.error().text();
    }
    size_t markers = 0;
    size_t text_bytes = 0;
    const std::string lost = analyzer::visit_structured_log(*log, bytes, [&](const format::RingImage& image) {
        image.for_each_marker([&](uint64_t, const format::MarkerEntry& entry) {
            ++markers;
            text_bytes += image.text(entry.name).size() + image.text(image.marker_site(entry.site).place).size();
        });
    });
    return fmt::format("read: {} markers{}{}", markers, text_bytes != 0 ? " with names" : "",
                       lost.empty() ? "" : "; " + lost);
}

bool seal_nothing(Bytes&) { return false; }

struct Target {
    std::string_view reader;
    std::string (*read)(std::span<const unsigned char>);
    bool (*seal)(Bytes&);
};

constexpr Target kTargets[] = {
    {"ring", read_ring, seal_nothing},       {"dump", read_dump, seal_container},
    {"digest", read_digest, seal_container}, {"journal", read_journal, seal_container},
    {"stacks", read_stacks, seal_nothing},   {"pickle", read_pickle, seal_nothing},
    {"json", read_json, seal_nothing},       {"archive", read_archive, seal_nothing},
    {"witness", read_witness, seal_nothing}, {"log", read_log, seal_nothing},
};

const Target* chosen = nullptr;

}  // namespace

bool choose(std::string_view reader) {
    const auto* const target = std::ranges::find(kTargets, reader, &Target::reader);
    chosen = target == std::end(kTargets) ? nullptr : target;
    return chosen != nullptr;
}

std::string read(std::span<const unsigned char> file) { return chosen->read(file); }

bool seal(Bytes& file) { return chosen->seal(file); }

}  // namespace titan::fuzz

// libFuzzer has options of its own: it learns the reader from the environment.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
    const char* reader = std::getenv("TITAN_FUZZ_READER");
    if (reader == nullptr || !titan::fuzz::choose(reader)) {
        fmt::print(stderr, "TITAN_FUZZ_READER must name a reader: ring, dump, ...\n");
        std::exit(1);
    }
    return 0;
}
