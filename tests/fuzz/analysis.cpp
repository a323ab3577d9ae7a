#include "analysis.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "decode_process.h"
#include "diagnose.h"
#include "digests.h"
#include "finding.h"
#include "formats/layout/digest_layout.h"
#include "formats/ring/ring_image.h"
#include "jobs.h"
#include "link_run.h"
#include "record_fields.h"
#include "report.h"
#include "sampled_stacks.h"
#include "show.h"
#include "slow_causes.h"
#include "stacks_report.h"
#include "straggler_report.h"
#include "timing.h"

namespace titan::fuzz {
namespace {

analyzer::Process sound_process(synth::Scenario& job, int rank) {
    analyzer::OpenedSource opened;
    opened.image = *format::RingImage::open(job.ring(rank).bytes());
    opened.now_ticks = job.now_ticks(rank);
    opened.liveness = analyzer::Liveness::kAlive;
    return analyzer::decode_process(opened);
}

template <typename Header>
Header seal_at(Bytes& bytes, size_t offset) {
    Header header{};
    std::memcpy(&header, bytes.data() + offset, sizeof(header));
    header.check = fnv1a64(bytes.data() + offset, offsetof(Header, check));
    std::memcpy(bytes.data() + offset, &header, sizeof(header));
    return header;
}

}  // namespace

void analyze(std::vector<analyzer::Process> processes) {
    static synth::Scenario& job = *new synth::Scenario(synth::mixed_job());
    static const auto& sound = *new std::vector{sound_process(job, 1), sound_process(job, 3)};
    analyzer::Run run;
    run.processes = std::move(processes);
    run.processes.insert(run.processes.end(), sound.begin(), sound.end());
    analyzer::link(run);
    analyzer::warn_of_gaps(run);
    report(run);
}

void report(analyzer::Run& run) {
    const analyzer::Diagnosis diagnosis = analyzer::diagnose(run);
    analyzer::json_report(run, diagnosis);
    analyzer::text_report(run, diagnosis, {});
    analyzer::layout_json_report(run);
    const analyzer::Timing timing = analyzer::analyze_timing(run);
    analyzer::straggler_json(run, timing, analyzer::slow_causes(run, timing));
    analyzer::fold_samples(run, {});
    analyzer::fold_difference(run, run.processes.front().rank);
    analyzer::sampled_excess(run, {run.processes.front().rank}, std::nullopt);
    (void)analyzer::unpack_process(analyzer::pack_process(run.processes.front()));
    analyzer::ShowOptions options;
    options.json = true;
    options.ranks = {run.processes.front().rank};
    for (const analyzer::RecordTable& table : analyzer::record_tables()) {
        options.kind = table.kind;
        analyzer::show(run, options, [](const std::string&) {});
    }
}

bool seal_container(Bytes& bytes) {
    if (bytes.size() < sizeof(format::DumpHeader)) {
        return false;
    }
    size_t offset = seal_at<format::DumpHeader>(bytes, 0).header_bytes;
    while (offset < bytes.size() && bytes.size() - offset >= sizeof(format::SectionHeader)) {
        format::SectionHeader section{};
        std::memcpy(&section, bytes.data() + offset, sizeof(section));
        const size_t stored_at = offset + sizeof(section);
        const bool whole = section.stored_bytes <= bytes.size() - stored_at;
        if (whole) {
            section.stored_check = format::stored_check_of(bytes.data() + stored_at, section.stored_bytes);
            std::memcpy(bytes.data() + offset, &section, sizeof(section));
        }
        seal_at<format::SectionHeader>(bytes, offset);
        if (!whole) {
            break;
        }
        offset = stored_at + section.stored_bytes;
    }
    return true;
}

std::string path_with(std::span<const unsigned char> file) {
    static std::FILE* const place = std::tmpfile();
    if (place == nullptr || ::ftruncate(::fileno(place), 0) != 0 ||
        ::pwrite(::fileno(place), file.data(), file.size(), 0) != static_cast<ssize_t>(file.size())) {
        std::perror("fuzz: no temporary file");
        std::exit(1);
    }
    return "/proc/self/fd/" + std::to_string(::fileno(place));
}

}  // namespace titan::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
    titan::fuzz::read({data, size});
    titan::fuzz::Bytes sealed(data, data + size);
    if (titan::fuzz::seal(sealed)) {
        titan::fuzz::read(sealed);
    }
    return 0;
}
