#include "new_metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/clock.h"
#include "base/process.h"
#include "formats/layout/journal_layout.h"
#include "host/this_host.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr int64_t kRecentWriteNs = int64_t{10} * 60 * 1'000'000'000;  // as of dumps (new_dumps.h)

NanMetric nan_metric(const std::string& path, const format::MarkerBlock& block, const format::MarkerEntry& marker) {
    const format::RingClock clock(block.header);
    NanMetric metric;
    metric.journal = path;
    metric.name = printable(block.text(marker.name));
    metric.step = marker.step;
    metric.at_ns = clock.realtime_ns(marker.ticks);
    metric.rank = block.header.rank;
    metric.pid = block.header.pid;
    metric.age_ns =
        std::max<int64_t>(clock.span_ns(block.header.first_anchor.ticks, block.header.last_anchor.ticks), 0);
    return metric;
}

}  // namespace

std::vector<NanMetric> NewMetrics::look(const std::set<std::string>& journals) {
    std::vector<NanMetric> found;
    for (const std::string& path : journals) {
        look_into(path, found);
    }
    return found;
}

// A block that is being written may be cut off: it is read the next time.
void NewMetrics::look_into(const std::string& path, std::vector<NanMetric>& found) {
    const Result<OpenFile> file = open_journal(path);
    if (!file) {
        return;
    }
    const auto [known, is_new] = read_bytes_.try_emplace(path, 0);
    uint64_t& read_bytes = known->second;
    if (is_new && static_cast<int64_t>(realtime_now_ns()) - file->modified_ns() > kRecentWriteNs) {
        read_bytes = file->size_bytes();
    }
    if (read_bytes >= file->size_bytes()) {
        return;
    }
    const Result<format::JournalIndex> index =
        format::index_journal(file->size_bytes(), [&file](uint64_t offset_bytes, void* into, size_t size_bytes) {
            return file->read_at(offset_bytes, into, size_bytes);
        });
    for (size_t i = 0; index && i < index->parts.size(); ++i) {
        const format::JournalPart& part = index->parts[i];
        std::vector<std::byte> bytes(part.offset_bytes < read_bytes ? 0 : part.size_bytes);
        if (bytes.empty() || file->read_at(part.offset_bytes, bytes.data(), bytes.size()) != bytes.size()) {
            continue;
        }
        const Result<format::MarkerBlock> block = format::read_block(bytes, index->processes[part.process], part);
        if (!block) {
            continue;
        }
        read_bytes = part.offset_bytes + part.size_bytes;
        for (const format::MarkerEntry& marker : block->markers) {
            if (marker.kind == format::MarkerKind::kMetric && std::isnan(std::bit_cast<double>(marker.value)) &&
                told_.emplace(std::filesystem::path(path).parent_path(), block->text(marker.name)).second) {
                found.push_back(nan_metric(path, *block, marker));
            }
        }
    }
}

std::set<std::string> of_this_node(const std::set<std::string>& journals) {
    const std::string name = format::JournalName(this_host().c_str(), read_boot_id().text, 0).text;
    const std::string own = name.substr(0, name.size() - format::kJournalSuffix.size() - 1);  // "node7-1f2e3d4c."
    std::set<std::string> found;
    std::copy_if(journals.begin(), journals.end(), std::inserter(found, found.end()), [&own](const std::string& path) {
        return std::filesystem::path(path).filename().string().starts_with(own);
    });
    return found;
}

bool has_variable(int32_t pid, const std::string& variable) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
    const std::string all = std::string(1, '\0') + std::string(std::istreambuf_iterator<char>(file), {});
    return all.find('\0' + variable + '\0') != std::string::npos;
}

}  // namespace titan::analyzer
