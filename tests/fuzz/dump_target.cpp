// Any bytes as a dump. Checksums guard the headers, so mutations alone would never get past them: the target seals the
// headers again and lets the sizes be what they are.
#include <cstring>
#include <vector>

#include "formats/dump_layout.h"
#include "formats/dump_reader.h"
#include "formats/ring_image.h"
#include "seed_job.h"
#include "target.h"

using namespace titan;

std::vector<std::vector<unsigned char>> fuzz::seeds() {
    synth::Scenario job = seed_job();
    return {as_bytes(synth::make_dump(job.ring(0), job.meta(0))), as_bytes(synth::make_dump(job.ring(2), job.meta(2)))};
}

namespace {

template <typename Header>
void seal(std::vector<unsigned char>& bytes, size_t offset, Header& header) {
    std::memcpy(&header, bytes.data() + offset, sizeof(header));
    header.check = format::fnv1a64(bytes.data() + offset, offsetof(Header, check));
    std::memcpy(bytes.data() + offset, &header, sizeof(header));
}

void seal_all(std::vector<unsigned char>& bytes) {
    format::DumpHeader header{};
    if (bytes.size() < sizeof(header)) {
        return;
    }
    seal(bytes, 0, header);
    size_t offset = header.header_bytes;
    format::SectionHeader section{};
    while (offset < bytes.size() && bytes.size() - offset >= sizeof(section)) {
        const size_t stored_at = offset + sizeof(section);
        std::memcpy(&section, bytes.data() + offset, sizeof(section));
        const bool whole = section.stored_bytes <= bytes.size() - stored_at;
        if (whole) {
            section.stored_check = format::stored_check_of(bytes.data() + stored_at, section.stored_bytes);
            std::memcpy(bytes.data() + offset, &section, sizeof(section));
        }
        seal(bytes, offset, section);
        if (!whole) {
            return;
        }
        offset = stored_at + section.stored_bytes;
    }
}

void read(std::span<const unsigned char> data) {
    static format::ImageBuffer& memory = *new format::ImageBuffer;
    const auto file = std::as_bytes(data);
    (void)format::read_dump_meta(file);
    if (format::read_dump(file, memory)) {
        if (const auto image = format::RingImage::open(memory.bytes())) {
            image->for_each_collective([](uint64_t, const format::CollectiveEntry&) {});
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
    read({data, size});
    std::vector<unsigned char> sealed(data, data + size);
    seal_all(sealed);
    read(sealed);
    return 0;
}
