#include "content.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "formats/fr/read.h"
#include "formats/layout/digest_layout.h"
#include "formats/layout/dump_layout.h"
#include "formats/layout/dump_name.h"
#include "formats/layout/ring_layout.h"
#include "host/file_bytes.h"
#include "log_line.h"
#include "record_archive.h"

namespace titan::analyzer {
namespace {

bool looks_like_flight_recorder(std::span<const std::byte> first_bytes) {
    switch (format::fr::guess_encoding(first_bytes)) {
        case format::fr::Encoding::kPickle: return true;
        case format::fr::Encoding::kUnknown: return false;
        case format::fr::Encoding::kJson: break;
    }
    const std::string_view text(reinterpret_cast<const char*>(first_bytes.data()), first_bytes.size());
    constexpr std::string_view kKeys[] = {"\"pg_config\"", "\"pg_status\"", "\"collective_seq_id\""};
    return std::any_of(std::begin(kKeys), std::end(kKeys),
                       [&](std::string_view key) { return text.find(key) != std::string_view::npos; });
}

// None where it cannot be read.
std::vector<std::byte> first_bytes_of(const std::string& path) {
    std::vector<std::byte> first(kFirstBytes);
    const Result<OpenFile> file = OpenFile::open(path);
    first.resize(file ? file->read_at(0, first.data(), first.size()) : 0);
    return first;
}

}  // namespace

Content content_of(std::span<const std::byte> first, std::string_view name) {
    uint64_t magic = 0;
    std::memcpy(&magic, first.data(), std::min(first.size(), sizeof(magic)));
    if (magic == format::kDigestMagic || name.ends_with(".digest")) {
        return Content::kDigest;
    }
    if (magic == format::kDumpMagic || magic == format::kRingMagic || format::is_dump_name(name) ||
        name.ends_with(".ring")) {
        return Content::kDump;
    }
    return looks_like_flight_recorder(first) ? Content::kFlightRecorder : Content::kOther;
}

bool is_flight_recorder(const std::string& path) { return looks_like_flight_recorder(first_bytes_of(path)); }

bool is_structured_log(const std::string& path) {
    const std::vector<std::byte> first = first_bytes_of(path);
    return looks_like_structured_log({reinterpret_cast<const char*>(first.data()), first.size()});
}

bool holds_records(const std::string& path) {
    constexpr int kMembers = 64;
    Result<Archive> archive = Archive::open(path);
    std::vector<std::byte> first;
    for (int i = 0; archive && i < kMembers; ++i) {
        const auto member = archive->next();
        first.clear();
        if (!member || !*member || archive->read(first, kFirstBytes)) {
            return false;
        }
        if (content_of(first, (*member)->name) != Content::kOther) {
            return true;
        }
    }
    return false;
}

}  // namespace titan::analyzer
