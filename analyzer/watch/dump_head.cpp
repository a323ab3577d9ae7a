#include "dump_head.h"

#include <algorithm>

#include "dump_meta.h"
#include "formats/container/dump_reader.h"
#include "formats/layout/started_by.h"
#include "formats/ring/ring_clock.h"
#include "host/file_bytes.h"

namespace titan::analyzer {

std::optional<DumpHead> read_dump_head(const std::string& path) {
    const Result<OpenFile> file = OpenFile::open(path, Links::kRefuse);
    const Result<format::RingHeader> header =
        file ? format::read_ring_header(*file) : Result<format::RingHeader>(file.error());
    if (!header) {
        return std::nullopt;
    }
    DumpHead head;
    head.world_size = header->world_size;
    head.attempt = header->attempt;
    head.written_ns = file->modified_ns();
    const Result<std::string> text = format::read_dump_meta(*file->read_all());
    if (const std::optional<DumpMeta> meta = text ? parse_dump_meta(*text) : std::nullopt) {
        const int64_t started_ns = format::RingClock(*header).realtime_ns(header->first_anchor.ticks);
        head.age_ns = std::max<int64_t>(static_cast<int64_t>(meta->realtime_ns) - started_ns, 0);
        for (const auto& [name, value] : meta->environment) {
            if (name == format::kStartedByVariable) {
                head.started_by = value;
            }
        }
    }
    return head;
}

}  // namespace titan::analyzer
