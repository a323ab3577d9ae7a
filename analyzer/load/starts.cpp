#include "starts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "choose_run.h"
#include "discover.h"
#include "formats/container/dump_reader.h"
#include "formats/ring/ring_clock.h"
#include "host/mapped.h"
#include "host/words.h"
#include "share_work.h"

namespace titan::analyzer {
namespace {

// From its start to its last sign of life on record.
struct Life {
    int32_t rank = -1;
    int64_t began_ns = INT64_MAX;
    int64_t newest_ns = 0;
    std::set<std::string> paths;
};
using Lives = std::map<ProcessKey, Life>;

void add(const format::RingHeader& header, const std::set<std::string>& paths, Lives& lives) {
    if (header.first_anchor.realtime_ns == 0) {
        return;
    }
    Life& life = lives[format::process_of(header)];
    const auto began_ns = static_cast<int64_t>(header.first_anchor.realtime_ns);
    const format::RingClock clock(header);
    life.rank = header.rank;
    life.began_ns = std::min(life.began_ns, began_ns);
    for (const uint64_t ticks : {header.first_anchor.ticks, header.last_anchor.ticks, header.heartbeat_ticks}) {
        life.newest_ns = std::max(life.newest_ns, clock.realtime_ns(ticks));
    }
    life.paths.insert(paths.begin(), paths.end());
}

std::vector<std::optional<format::RingHeader>> heads_of(const std::vector<Candidate>& files) {
    std::vector<std::optional<format::RingHeader>> heads(files.size());
    share_work(files.size(), kReadersAtOnce, [&](const auto& next, bool) {
        while (const std::optional<size_t> i = next()) {
            const Result<OpenFile> file = OpenFile::open(files[*i].path);
            const Result<format::RingHeader> head =
                file ? format::read_ring_header(*file) : Result<format::RingHeader>(file.error());
            heads[*i] = head ? std::optional(*head) : std::nullopt;
        }
    });
    return heads;
}

// Files of several processes, or of another recorder, are read as a whole. One dump of each rank is of one start.
bool may_hold_starts(const CandidateGroup& group) {
    std::set<std::string> stems;
    const bool all_ours = std::ranges::none_of(group.files, [](const Candidate& file) {
        return file.is_digest || file.is_archive || file.is_flight_recorder;
    });
    return !group.attempt.empty() && all_ours &&
           (!group.journals.empty() ||
            !std::ranges::all_of(group.files, [&](const Candidate& file) { return stems.insert(file.stem).second; }));
}

Lives lives_of(const CandidateGroup& group) {
    Lives lives;
    const std::vector<std::optional<format::RingHeader>> heads = heads_of(group.files);
    for (size_t i = 0; i < heads.size(); ++i) {
        if (heads[i]) {
            add(*heads[i], {group.files[i].path}, lives);
        }
    }
    Journals journals(group.journals);
    std::vector<std::byte> memory;
    for (const ProcessKey& key : journals.processes()) {
        format::RingImage image;
        if (journals.newest(key, memory, image)) {
            add(image.header(), journals.paths_of(key), lives);
        }
    }
    return lives;
}

void keep(const Start& start, CandidateGroup& group) {
    group.start = start.number;
    group.starts = start.count;
    group.processes = start.processes;
    std::erase_if(group.files, [&](const Candidate& file) { return !start.paths.contains(file.path); });
    std::erase_if(group.journals, [&](const std::string& path) { return !start.paths.contains(path); });
}

}  // namespace

std::vector<Start> starts_of(const CandidateGroup& group) {
    std::vector<Start> starts;
    if (!may_hold_starts(group)) {
        return starts;
    }
    const Lives lives = lives_of(group);
    std::vector<const Lives::value_type*> by_begin = mapped(lives, [](const auto& item) { return &item; });
    std::ranges::stable_sort(by_begin,
                             [](const auto* a, const auto* b) { return a->second.began_ns < b->second.began_ns; });
    // A start begins where all earlier ones are silent, and a rank that is there before comes again behind that. The
    // last sign of life may be older than the end: silence alone tells nothing.
    size_t begin = 0;
    size_t silent = 0;  // the newest place in this start with silence in front
    int64_t newest_ns = 0;
    std::set<int32_t> before;  // ranks from `begin` to `silent`
    std::set<int32_t> behind;  // ranks from `silent` on
    const auto end_start = [&](size_t end) {
        Start& start = starts.emplace_back();
        start.number = static_cast<int32_t>(starts.size());
        start.began_ns = by_begin[begin]->second.began_ns;
        for (size_t i = begin; i < end; ++i) {
            const auto& [key, life] = *by_begin[i];
            start.newest_ns = std::max(start.newest_ns, life.newest_ns);
            start.processes.insert(key);
            start.paths.insert(life.paths.begin(), life.paths.end());
        }
        begin = end;
    };
    for (size_t i = 0; i < by_begin.size(); ++i) {
        const Life& life = by_begin[i]->second;
        if (life.began_ns > newest_ns) {
            silent = i;
            before.merge(behind);
            behind.clear();
        }
        behind.insert(life.rank);
        newest_ns = std::max(newest_ns, life.newest_ns);
        if (silent > begin && before.contains(life.rank)) {
            end_start(silent);
            before.clear();
        }
    }
    if (!by_begin.empty()) {
        end_start(by_begin.size());
    }
    if (starts.size() < 2) {
        starts.clear();
    }
    for (Start& start : starts) {
        start.count = static_cast<int32_t>(starts.size());
    }
    return starts;
}

std::optional<Error> keep_start(std::vector<CandidateGroup>& groups, const LoadOptions& options) {
    std::string found;
    std::erase_if(groups, [&](CandidateGroup& group) {
        if (options.told_start) {
            keep(*options.told_start, group);
            return false;
        }
        const std::vector<Start> starts = starts_of(group);
        const size_t count = std::max<size_t>(starts.size(), 1);
        const size_t wanted = options.start == 0 ? count : static_cast<size_t>(options.start);
        if (wanted > count) {
            found += fmt::format("{}{}{}", found.empty() ? "" : ", ", counted(count, "start"),
                                 group.attempt.empty()
                                     ? std::string()
                                     : fmt::format(" of {} attempt {}", printable(group.run), group.attempt));
            return true;
        }
        if (!starts.empty()) {
            keep(starts[wanted - 1], group);
        }
        return false;
    });
    if (!groups.empty()) {
        return std::nullopt;
    }
    return Error(fmt::format("no start {}; found: {} (--list-runs shows them)", options.start, found));
}

// --- attempts of a run

namespace {

int32_t number_of(const CandidateGroup& group) {
    return static_cast<int32_t>(std::strtol(group.attempt.c_str(), nullptr, 10));
}

// Who reads one attempt after the other need not look for the files of all each time.
std::vector<std::string> paths_of(const CandidateGroup& group) {
    std::vector<std::string> paths = group.journals;
    for (const Candidate& file : group.files) {
        if (file.is_archive) {
            return {};
        }
        paths.push_back(file.path);
    }
    return paths;
}

// The attempt of that directory, or its starts.
void add(const CandidateGroup& group, std::vector<AttemptOf>& attempts) {
    std::vector<Start> starts = starts_of(group);
    for (Start& start : starts) {
        attempts.push_back({group.run, number_of(group), std::make_shared<const Start>(std::move(start))});
    }
    if (starts.empty()) {
        attempts.push_back({group.run, number_of(group), nullptr, paths_of(group)});
    }
}

}  // namespace

Result<std::vector<AttemptOf>> attempts_of(const LoadOptions& options) {
    const Result<Discovery> discovery = discover(options.paths);
    if (!discovery) {
        return discovery.error();
    }
    if (options.start != 0) {
        return std::vector<AttemptOf>{{options.run, options.attempt}};
    }
    const auto is_wanted = [&options](const CandidateGroup& group) {
        return !group.attempt.empty() && (options.run.empty() || group.run == options.run) &&
               (!options.attempt || number_of(group) == *options.attempt);
    };
    const auto newest = std::ranges::find_if(discovery->groups, is_wanted);
    const std::string run = newest == discovery->groups.end() ? options.run : newest->run;
    std::map<int32_t, const CandidateGroup*> groups;
    for (const CandidateGroup& group : discovery->groups) {
        if (group.run == run && is_wanted(group)) {
            groups.emplace(number_of(group), &group);
        }
    }
    std::vector<AttemptOf> attempts;
    for (const auto& [number, group] : groups) {
        add(*group, attempts);
    }
    if (attempts.empty() && !options.attempt && !discovery->logs.empty()) {
        const Result<ChosenLogs> logs = choose_logs(discovery->logs, {});
        for (int32_t number = 0; logs && number <= logs->attempt; ++number) {
            attempts.push_back({run, number});
        }
    }
    if (attempts.empty()) {
        attempts.push_back({run, options.attempt});
    }
    return attempts;
}

Result<std::vector<AttemptOf>> all_attempts(const LoadOptions& options) {
    const Result<Discovery> discovery = discover(options.paths);
    if (!discovery) {
        return discovery.error();
    }
    std::vector<AttemptOf> attempts;
    for (auto group = discovery->groups.rbegin(); group != discovery->groups.rend(); ++group) {
        if (!group->attempt.empty()) {
            add(*group, attempts);
        }
    }
    return attempts;
}

}  // namespace titan::analyzer
