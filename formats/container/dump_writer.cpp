#include "formats/container/dump_writer.h"

#include <string.h>

#include "base/page.h"

namespace titan::format {
namespace {

static_assert(kMaxSectionRawBytes % kPageBytes == 0);

bool all_zero(const char* bytes, uint64_t size_bytes) {
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

}  // namespace

// An image is mostly zeros until it has filled up, and a reader fills gaps with zeros: only the rest is stored.
bool DumpWriter::add_image(SectionKind kind, const void* image, uint64_t size_bytes) {
    const char* const bytes = static_cast<const char*>(image);
    const auto page_bytes = [&](uint64_t at) { return size_bytes - at < kPageBytes ? size_bytes - at : kPageBytes; };
    for (uint64_t begin = 0; sections_.good() && begin < size_bytes;) {
        uint64_t end = begin;
        while (end < size_bytes && end - begin < kMaxSectionRawBytes && !all_zero(bytes + end, page_bytes(end))) {
            end += page_bytes(end);
        }
        if (end == begin) {
            begin += page_bytes(begin);
            continue;
        }
        sections_.add(kind, bytes + begin, end - begin, begin);
        begin = end;
    }
    return sections_.good();
}

}  // namespace titan::format
