// Any bytes as a ring: all readers of RingImage, then the whole analysis with a sound ring beside the broken one.
#include <vector>

#include "analyzer/finding.h"
#include "analyzer/load.h"
#include "analyzer/load_warnings.h"
#include "analyzer/report.h"
#include "formats/ring_image.h"
#include "seed_job.h"
#include "target.h"

using namespace titan;

std::vector<std::vector<unsigned char>> fuzz::seeds() {
    synth::Scenario job = seed_job();
    return {as_bytes(job.ring(0).bytes()), as_bytes(job.ring(2).bytes())};
}

namespace {

analyzer::Process decode(const format::RingImage& image, uint64_t now_ticks) {
    analyzer::OpenedSource opened;
    opened.image = image;
    opened.now_ticks = now_ticks;
    opened.liveness = analyzer::Liveness::kAlive;
    return analyzer::decode_process(opened);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
    const auto image = format::RingImage::open(std::as_bytes(std::span(data, size)));
    if (!image) {
        return 0;
    }
    image->for_each_cuda_call([](uint64_t, const format::CudaCallEntry&) {});
    image->for_each_marker([](uint64_t, const format::MarkerEntry&) {});
    image->for_each_stream_work([](uint64_t, const format::StreamWorkEntry&) {});
    image->for_each_channel(
        [&](uint64_t, const format::ChannelEntry& entry) { image->launch_marks(entry.collective); });
    for (uint32_t id = 0; id < 300; ++id) {
        image->text(id);
    }
    static synth::Scenario& sound = *new synth::Scenario(fuzz::seed_job());
    analyzer::Run run;
    run.processes.push_back(decode(*image, sound.now_ticks(0)));
    for (const int rank : {1, 3}) {
        run.processes.push_back(decode(*format::RingImage::open(sound.ring(rank).bytes()), sound.now_ticks(rank)));
    }
    analyzer::link(run);
    analyzer::warn_of_gaps(run);
    const analyzer::Diagnosis diagnosis = analyzer::diagnose(run);
    analyzer::json_report(run, diagnosis);
    analyzer::text_report(run, diagnosis, {});
    return 0;
}
