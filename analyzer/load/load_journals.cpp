#include "load_journals.h"

#include <set>

#include "condense.h"
#include "decode_process.h"
#include "journals.h"

namespace titan::analyzer {

std::vector<Process> load_journals(const std::vector<std::string>& paths, const std::vector<Process>& known,
                                   const LoadOptions& options, std::vector<std::string>& problems) {
    std::set<ProcessKey> recorded;
    for (const Process& process : known) {
        recorded.insert(process_key(process));
    }
    Journals journals(paths);
    std::vector<Process> processes;
    for (const ProcessKey& key : journals.processes()) {
        std::vector<std::byte> memory;
        OpenedSource opened;
        const bool is_wanted =
            !recorded.contains(key) && journals.open(key, memory, opened) &&
            (options.only_host.empty() || format::fixed_text(opened.image.header().host) == options.only_host);
        if (is_wanted) {
            condense(processes.emplace_back(decode_process(opened)));
        }
    }
    problems.insert(problems.end(), journals.problems().begin(), journals.problems().end());
    return processes;
}

}  // namespace titan::analyzer
