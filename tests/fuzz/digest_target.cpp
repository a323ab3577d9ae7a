// Any bytes as a digest, with its checksums sealed again, and as one packed process; what can be read is analyzed.
#include <cstring>
#include <vector>

#include "analyzer/condense.h"
#include "analyzer/digest.h"
#include "analyzer/finding.h"
#include "analyzer/load.h"
#include "analyzer/load_warnings.h"
#include "analyzer/report.h"
#include "formats/digest_file.h"
#include "seed_job.h"
#include "target.h"

using namespace titan;

namespace {

analyzer::Process process_of(synth::Scenario& job, int rank) {
    analyzer::OpenedSource opened;
    opened.image = *format::RingImage::open(job.ring(rank).bytes());
    opened.now_ticks = job.now_ticks(rank);
    opened.liveness = analyzer::Liveness::kAlive;
    analyzer::Process process = analyzer::decode_process(opened);
    analyzer::condense(process, {.newest = 8, .newest_of_member = 2});
    return process;
}

void analyze(analyzer::Process process) {
    static synth::Scenario& sound = *new synth::Scenario(fuzz::seed_job());
    static const analyzer::Process& other = *new analyzer::Process(process_of(sound, 1));
    analyzer::Run run;
    run.processes.push_back(std::move(process));
    run.processes.push_back(other);
    analyzer::link(run);
    analyzer::warn_of_gaps(run);
    const analyzer::Diagnosis diagnosis = analyzer::diagnose(run);
    analyzer::json_report(run, diagnosis);
    analyzer::text_report(run, diagnosis, {});
}

void seal_all(std::vector<unsigned char>& bytes) {
    const auto seal = [&](size_t offset, auto header) {
        std::memcpy(&header, bytes.data() + offset, sizeof(header));
        header.check = format::fnv1a64(bytes.data() + offset, offsetof(decltype(header), check));
        std::memcpy(bytes.data() + offset, &header, sizeof(header));
        return header;
    };
    if (bytes.size() < sizeof(format::DigestHeader)) {
        return;
    }
    size_t offset = seal(0, format::DigestHeader{}).header_bytes;
    while (offset < bytes.size() && bytes.size() - offset >= sizeof(format::SectionHeader)) {
        format::SectionHeader section{};
        std::memcpy(&section, bytes.data() + offset, sizeof(section));
        const size_t stored_at = offset + sizeof(section);
        const bool whole = section.stored_bytes <= bytes.size() - stored_at;
        if (whole) {
            section.stored_check = format::stored_check_of(bytes.data() + stored_at, section.stored_bytes);
            std::memcpy(bytes.data() + offset, &section, sizeof(section));
        }
        seal(offset, section);
        if (!whole) {
            return;
        }
        offset = stored_at + section.stored_bytes;
    }
}

void read(std::span<const unsigned char> file) {
    (void)format::read_digest(std::as_bytes(file), [](format::DigestSection kind, std::span<const std::byte> raw) {
        if (kind == format::DigestSection::kProcess) {
            (void)analyzer::unpack_process(raw);
        }
    });
}

}  // namespace

std::vector<std::vector<unsigned char>> fuzz::seeds() {
    synth::Scenario job = seed_job();
    format::DigestBuilder builder;
    std::vector<std::vector<unsigned char>> seeds;
    for (int rank = 0; rank < job.size(); ++rank) {
        const std::vector<std::byte> packed = analyzer::pack_process(process_of(job, rank));
        builder.add(format::DigestSection::kProcess, packed);
        seeds.push_back(as_bytes(packed));
    }
    seeds.push_back(as_bytes(builder.finish()));
    return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
    const std::span<const unsigned char> bytes(data, size);
    if (format::is_digest(std::as_bytes(bytes))) {
        read(bytes);
        std::vector<unsigned char> sealed(data, data + size);
        seal_all(sealed);
        read(sealed);
    } else if (auto process = analyzer::unpack_process(std::as_bytes(bytes))) {
        analyze(std::move(*process));
    }
    return 0;
}
