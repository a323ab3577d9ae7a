#include "rings.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/clock.h"
#include "formats/container/dump_builder.h"
#include "formats/container/dump_reader.h"
#include "formats/layout/dump_name.h"
#include "formats/ring/ring_process.h"
#include "host/file_bytes.h"
#include "host/json_value.h"
#include "host/words.h"
#include "open_source.h"

namespace titan::analyzer {
namespace {

namespace files = std::filesystem;

NodeRing describe(const std::string& path, const OpenedSource& opened, size_t size_bytes) {
    const format::RingHeader& header = opened.image.header();
    NodeRing ring;
    ring.path = path;
    ring.pid = header.pid;
    ring.rank = header.rank;
    ring.attempt = header.attempt;
    ring.run = printable(format::fixed_text(header.run));
    ring.executable = printable(format::fixed_text(header.executable));
    ring.liveness = opened.liveness;
    ring.newest_ns = opened.image.clock().realtime_ns(opened.now_ticks);
    ring.age_ns = opened.liveness == Liveness::kAlive ? 0 : static_cast<int64_t>(realtime_now_ns()) - ring.newest_ns;
    ring.size_bytes = size_bytes;
    return ring;
}

std::string meta_json(const OpenedSource& opened) {
    const bool alive = opened.liveness == Liveness::kAlive;
    Json meta{{"schema", 1},
              {"dump", opened.image.header().dumps_written},
              {"reason", "collected"},
              {"detail", "left on the node, collected by titan-analyze"},
              {"requested_by_rank", -1},
              {"realtime_ns", opened.image.clock().realtime_ns(opened.now_ticks)},
              {"ticks", opened.now_ticks},
              {"saved_by_rank", -1},
              {"process_alive", alive},
              {"environment", Json::object()}};
    if (opened.halt != Halt::kNone) {
        meta["halt"] = halt_name(opened.halt);
    }
    return meta.dump();
}

// Collected before, and nothing has happened to the ring since.
bool is_saved(const std::string& path, const format::RingHeader& ring) {
    const auto file = OpenFile::open(path);
    const auto saved = file ? format::read_ring_header(*file) : Result<format::RingHeader>(file.error());
    return saved && saved->pid == ring.pid && saved->pid_start_ticks == ring.pid_start_ticks &&
           format::fixed_text(saved->boot_id) == format::fixed_text(ring.boot_id) &&
           saved->heartbeat_ticks == ring.heartbeat_ticks && saved->dumps_written == ring.dumps_written &&
           saved->state == ring.state;
}

bool is_saved_in(const std::string& directory, const format::RingHeader& ring) {
    std::error_code failed;
    for (const auto& item : files::directory_iterator(directory, failed)) {
        if (format::is_dump_name(item.path().native()) && is_saved(item.path().string(), ring)) {
            return true;
        }
    }
    return false;
}

std::string free_name(const std::string& directory, const NodeRing& ring) {
    const format::DumpStem stem(ring.rank, ring.pid);
    for (uint64_t number = 0;; ++number) {
        std::string path = fmt::format("{}/{}", directory, format::DumpName(stem, number).text);
        if (!files::exists(files::symlink_status(path))) {
            return path;
        }
    }
}

void collect_one(const NodeRing& ring, const OpenedSource& opened, const ImageBuffer& memory,
                 const CollectOptions& options, CollectResult& result) {
    const std::string directory =
        fmt::format("{}/{}/{}", options.into, safe_file_name(ring.run.empty() ? "run" : ring.run), ring.attempt);
    std::error_code failed;
    files::create_directories(directory, failed);
    if (ring.liveness != Liveness::kAlive && is_saved_in(directory, opened.image.header())) {
        ++result.saved_before;
        return;
    }
    const auto dump = format::build_dump(memory.bytes(), meta_json(opened));
    if (!dump) {
        result.problems.push_back(dump.error().within(ring.path).text());
        return;
    }
    const std::string path = free_name(directory, ring);
    if (const auto problem = write_private_file(path, *dump)) {
        result.problems.push_back(problem->within(path).text());
    } else {
        result.written.push_back(path);
    }
}

}  // namespace

const char* liveness_text(Liveness liveness) {
    switch (liveness) {
        case Liveness::kAlive: return "alive";
        case Liveness::kExited: return "exited";
        case Liveness::kCrashed: return "crashed";
        case Liveness::kKilled: return "dead";
        case Liveness::kEnded: return "ended";
        case Liveness::kUnknown: break;
    }
    return "unknown";
}

Liveness dead_how(const format::RingHeader& header) {
    switch (header.state) {
        case format::ProcessState::kExited: return Liveness::kExited;
        case format::ProcessState::kCrashed: return Liveness::kCrashed;
        default: return Liveness::kKilled;
    }
}

std::vector<std::string> ring_paths(const RingDirectories& directories) {
    std::vector<std::string> paths;
    for (const PrivateDir& directory : private_directories(directories, Users::kThis)) {
        for (const std::string& name : is_trusted(directory) ? ring_names(directory) : std::vector<std::string>()) {
            const std::string path = directory.path + "/" + name;
            struct stat status {};
            if (::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == directory.owner) {
                paths.push_back(path);
            }
        }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::vector<NodeRing> list_rings(const RingDirectories& directories) {
    std::vector<NodeRing> rings;
    ImageBuffer memory;
    for (const std::string& path : ring_paths(directories)) {
        const Result<OpenedSource> opened = open_source(path, memory);
        if (opened) {
            rings.push_back(describe(path, *opened, memory.bytes().size()));
        } else {
            NodeRing broken;
            broken.path = path;
            broken.problem = opened.error().text();
            rings.push_back(broken);
        }
    }
    return rings;
}

std::string ring_as_json(const NodeRing& ring) {
    Json json{{"path", ring.path}};
    if (ring.problem.empty()) {
        json["pid"] = ring.pid;
        json["process"] = liveness_text(ring.liveness);
        json["rank"] = ring.rank;
        json["run"] = ring.run;
        json["attempt"] = ring.attempt;
        json["executable"] = ring.executable;
        json["newest_realtime_ns"] = ring.newest_ns;
        json["age_ns"] = ring.age_ns;
        json["size_bytes"] = ring.size_bytes;
    } else {
        json["problem"] = ring.problem;
    }
    return json.dump() + "\n";
}

CollectResult collect_rings(const CollectOptions& options) {
    CollectResult result;
    ImageBuffer memory;
    for (const std::string& path : ring_paths(options.ring_directories)) {
        const Result<OpenedSource> opened = open_source(path, memory);
        if (!opened) {
            result.problems.push_back(opened.error().text());
            continue;
        }
        const NodeRing ring = describe(path, *opened, memory.bytes().size());
        const bool wanted = options.run.empty() || options.run == ring.run;
        if (wanted && (options.include_alive || ring.liveness != Liveness::kAlive)) {
            collect_one(ring, *opened, memory, options, result);
        }
    }
    return result;
}

// --- runs of this node

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
