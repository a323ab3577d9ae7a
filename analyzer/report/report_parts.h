// Parts of the report for people that are sentences of their own.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

// "run job-17 attempt 0: 8 of 8 ranks on host node-3; dumps: 7 followed another rank's dump, 1 by the watchdog".
std::string outline_text(const Run& run);

// "run job-17 attempt 0"; of a longer id only so many characters.
std::string run_title(const Run& run, size_t most_characters = SIZE_MAX);

// The newest that any rank is in; -1: none marks steps.
int64_t newest_step(const Run& run);
// Ranks without any record, of these; of all where there are none.
std::vector<int> missing_ranks(const Run& run, const std::set<int>& wanted);

// What the program or its user says of the whole run: labels on which all ranks agree that have them. By key.
std::map<std::string, std::string> shared_labels(const Run& run);

// The rank of a member of a process: one process may have several.
inline int rank_of(const Process& process, uint32_t row) {
    return row != kNoIndex && process.members[row].global_rank >= 0 ? process.members[row].global_rank : process.rank;
}

// "alive", "stopped", "killed", ...: for programs that read the report.
std::string_view status_of(const Process& process);

// "dump", "ring", "journal", "digest" or "flight_recorder", likewise.
constexpr const char* name_of(const Source& source) {
    return source.is_flight_recorder ? "flight_recorder"
           : source.is_digest        ? "digest"
           : source.is_journal       ? "journal"
           : source.is_ring          ? "ring"
                                     : "dump";
}

// The newest thing that is known of it, CLOCK_REALTIME; 0 unknown. A journal tells of markers alone.
inline int64_t newest_moment_ns(const Process& process) {
    return process.source.is_journal ? process.now_ns : process.last_activity_ns();
}

// Suggestions for the head finding, each a line for a shell: a command, or advice as a comment. `input` names the
// records on a command line.
std::vector<std::string> next_steps(const Run& run, const Finding& head, const std::string& input);
// Where there is no finding: what one rank does and waits for, preferably one that is inside a call.
std::vector<std::string> look_at_a_rank(const Run& run, const std::string& input);

}  // namespace titan::analyzer
