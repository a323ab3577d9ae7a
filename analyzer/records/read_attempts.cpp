#include "read_attempts.h"

#include <fmt/format.h>

#include <algorithm>

#include "attempts.h"
#include "host/words.h"
#include "load_run.h"

namespace titan::analyzer {

namespace {

bool is_of_session(const Process& process, const std::string& session) {
    return std::any_of(process.labels.begin(), process.labels.end(), [&](const std::pair<uint32_t, uint32_t>& label) {
        return process.text(label.first) == "session_tag" && process.text(label.second) == session;
    });
}

}  // namespace

// From the newest to the oldest: each tells from which step on the one before was in vain.
Result<std::vector<AttemptTimes>> read_attempts(LoadOptions load, const WantedAttempts& wanted, const Write& note) {
    load.with_journals = true;
    const std::vector<std::string> paths = load.paths;
    const Result<std::vector<AttemptOf>> found = wanted.session.empty() ? attempts_of(load) : all_attempts(load);
    if (!found) {
        return found.error();
    }
    std::vector<AttemptTimes> attempts;  // newest first
    const auto keep = [&attempts](const AttemptTimes& attempt) {
        if (attempt.ranks != 0) {
            attempts.push_back(attempt);
        }
    };
    for (auto one = found->rbegin(); one != found->rend(); ++one) {
        const bool is_newest = wanted.newest && one->number.value_or(wanted.newest->attempt) == wanted.newest->attempt;
        if (is_newest && (!one->start || one->start->number == wanted.newest->start)) {
            keep(*wanted.newest);
            continue;
        }
        load.run = one->run;
        load.attempt = one->number;
        load.told_start = one->start;
        load.paths = one->start ? std::vector<std::string>(one->start->paths.begin(), one->start->paths.end()) : paths;
        const Result<Run> run = load_run(load);
        if (!run) {
            note(fmt::format("attempt {}{}{} is left out: {}", one->number.value_or(0),
                             one->start ? fmt::format(" start {}", one->start->number) : std::string(),
                             wanted.session.empty() ? "" : " of run " + printable(one->run), run.error().text()));
            continue;
        }
        Symbols symbols(Symbols::Search::kNearby);
        RecordReader reader(*run, symbols);
        if (!wanted.session.empty() &&
            std::none_of(reader.processes().begin(), reader.processes().end(),
                         [&](const Process* process) { return is_of_session(*process, wanted.session); })) {
            continue;
        }
        AttemptReader times(*run, attempts.empty() ? nullptr : &attempts.back());
        const auto add = [&times](const ProcessRecords& records) { times.add(records); };
        reader.visit_ours(wanted.ranks, add, wanted.progress);
        for (const std::string& problem : reader.problems()) {
            note(problem);
        }
        keep(times.times());
    }
    std::reverse(attempts.begin(), attempts.end());
    return attempts;
}

}  // namespace titan::analyzer
