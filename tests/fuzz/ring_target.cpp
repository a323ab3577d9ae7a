// Any bytes as a ring: every reader of RingImage, then the analysis.
#include "analysis.h"
#include "decode_process.h"
#include "decode_samples.h"
#include "formats/ring/ring_image.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
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

bool fuzz::seal(Bytes&) { return false; }
