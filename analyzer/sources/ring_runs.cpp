#include "ring_runs.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "formats/container/dump_reader.h"
#include "formats/ring/ring_process.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "rings.h"

namespace titan::analyzer {
namespace {

namespace files = std::filesystem;

files::path resolved(const std::string& path) {
    std::error_code failed;
    files::path canonical = files::weakly_canonical(path, failed);
    canonical = failed ? files::path(path) : canonical;
    return canonical.has_filename() ? canonical : canonical.parent_path();
}

// `path` is where that run dumps: the directory itself, or that of the run or the attempt in it.
bool dumps_into(const format::RingHeader& header, const files::path& path) {
    const std::string_view directory = format::fixed_text(header.dump_directory);
    if (!directory.starts_with('/')) {
        return false;
    }
    const files::path top = resolved(std::string(directory));
    const files::path of_run = top / safe_file_name(std::string(format::fixed_text(header.run)));
    return path == top || path == of_run || path == of_run / std::to_string(header.attempt);
}

int64_t newest_ns(const format::RingHeader& header, Presence presence) {
    const format::RingClock clock(header);
    return clock.realtime_ns(is_alive(presence)
                                 ? clock.ticks_now()
                                 : std::max({header.heartbeat_ticks, header.last_anchor.ticks, header.step_ticks}));
}

}  // namespace

std::optional<RingRun> newest_ring_run(const RingDirectories& directories, const std::vector<std::string>& paths,
                                       const std::string& run, std::optional<int32_t> attempt) {
    std::map<std::pair<std::string, int32_t>, RingRun> runs;
    std::vector<files::path> wanted;
    std::transform(paths.begin(), paths.end(), std::back_inserter(wanted), resolved);
    for (const std::string& path : ring_paths(directories)) {
        const auto file = OpenFile::open(path);
        const auto header = file ? format::read_ring_header(*file) : Result<format::RingHeader>(file.error());
        if (!header || std::none_of(wanted.begin(), wanted.end(),
                                    [&](const files::path& one) { return dumps_into(*header, one); })) {
            continue;
        }
        RingRun found{printable(format::fixed_text(header->run)), header->attempt};
        if ((!run.empty() && found.run != run) || (attempt && found.attempt != *attempt)) {
            continue;
        }
        const Presence presence = format::presence_of(*header);
        RingRun& known = runs.try_emplace({found.run, found.attempt}, found).first->second;
        known.alive |= is_alive(presence);
        known.newest_ns = std::max(known.newest_ns, newest_ns(*header, presence));
        ++known.rings;
    }
    const auto newest = std::max_element(
        runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.second.newest_ns < b.second.newest_ns; });
    return newest == runs.end() ? std::nullopt : std::optional(newest->second);
}

}  // namespace titan::analyzer
