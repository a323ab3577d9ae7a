#include "choose_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "host/words.h"
#include "structured_log.h"

namespace titan::analyzer {

Result<ChosenLogs> choose_logs(const std::vector<std::string>& paths, const LoadOptions& options) {
    std::vector<StructuredLog> logs;
    ChosenLogs chosen;
    for (const std::string& path : paths) {
        Result<StructuredLog> log = open_structured_log(path);
        if (log) {
            logs.push_back(std::move(*log));
        } else {
            chosen.warnings.push_back(
                {WarningKind::kDamagedFile, {}, log.error().within(printable(base_name(path))).text() + "; skipped"});
        }
    }
    if (logs.empty()) {
        return Error(chosen.warnings.empty() ? "no log is there" : chosen.warnings.front().summary);
    }
    std::stable_sort(logs.begin(), logs.end(),
                     [](const StructuredLog& a, const StructuredLog& b) { return a.first_ns < b.first_ns; });
    std::vector<std::vector<std::string>> attempts;
    std::set<std::pair<std::string, int32_t>> started;
    int64_t silent_ns = 0;  // since then those that started say nothing
    for (const StructuredLog& log : logs) {
        if (attempts.empty() || log.first_ns > silent_ns || started.contains({log.source, log.rank})) {
            started.clear();
            attempts.emplace_back();
            silent_ns = log.last_ns;
        }
        started.emplace(log.source, log.rank);
        silent_ns = std::max(silent_ns, log.last_ns);
        attempts.back().push_back(log.path);
    }
    const size_t newest = attempts.size() - 1;
    const size_t wanted = options.attempt ? static_cast<size_t>(std::max(*options.attempt, 0)) : newest;
    if (wanted > newest) {
        return Error(fmt::format("no attempt {}: the logs there are of {}, from 0 on", wanted,
                                 counted(attempts.size(), "start")));
    }
    if (newest != 0) {
        chosen.warnings.push_back({WarningKind::kOtherRun,
                                   {},
                                   fmt::format("the logs there are of {} of the job: attempt {} is shown (--attempt)",
                                               counted(attempts.size(), "start"), wanted)});
    }
    chosen.attempt = static_cast<int32_t>(wanted);
    chosen.paths = std::move(attempts[wanted]);
    return chosen;
}

}  // namespace titan::analyzer
