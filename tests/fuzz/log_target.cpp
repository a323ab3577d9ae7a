// Any bytes as a log of torchtitan's structured logger, and its markers as rings.
#include <fmt/format.h>

#include <algorithm>

#include "structured_log.h"
#include "target.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
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

bool fuzz::seal(Bytes&) { return false; }
