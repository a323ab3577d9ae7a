// Any bytes as a journal: its index, its blocks, and these as rings.
#include "analysis.h"
#include "formats/container/journal_reader.h"
#include "formats/ring/journal_image.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
    const std::span<const std::byte> bytes = std::as_bytes(file);
    const auto index = format::index_journal(bytes);
    if (!index) {
        return index.error().text();
    }
    size_t markers = 0;
    size_t text_bytes = 0;
    std::vector<std::byte> memory;
    std::string problem = index->problems.empty() ? "" : index->problems.front();
    for (const format::JournalPart& part : index->parts) {
        const auto block = format::read_block(bytes.subspan(part.offset_bytes, part.size_bytes));
        const auto image = block ? format::image_of(*block, memory) : block.error();
        if (!image) {
            problem = image.error().text();
            continue;
        }
        image->for_each_marker([&](uint64_t, const format::MarkerEntry& entry) {
            ++markers;
            text_bytes += image->text(entry.name).size() + image->text(image->marker_site(entry.site).place).size();
        });
    }
    return "read: " + std::to_string(markers) + " markers" + (text_bytes != 0 ? " with names" : "") +
           (problem.empty() ? "" : "; " + problem);
}

bool fuzz::seal(Bytes& file) { return seal_container(file); }
