#include "load_journals.h"

#include <set>
#include <span>

#include "condense.h"
#include "decode_process.h"
#include "journals.h"

namespace titan::analyzer {

std::vector<Process> load_journals(const std::vector<std::string>& paths, const std::vector<Process>& known,
                                   const std::set<ProcessKey>& only, const LoadOptions& options,
                                   std::vector<std::string>& problems) {
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
            !recorded.contains(key) && (only.empty() || only.contains(key)) && journals.open(key, memory, opened) &&
            (options.only_host.empty() || format::fixed_text(opened.image.header().host) == options.only_host);
        if (is_wanted) {
            condense(processes.emplace_back(decode_process(opened)));
        }
    }
    problems.insert(problems.end(), journals.problems().begin(), journals.problems().end());
    return processes;
}

bool begins_after(const std::string& path, int64_t time_ns) {
    constexpr size_t kFirstBytes = 256 << 10;
    const Result<OpenFile> file = open_journal(path);
    std::vector<std::byte> bytes(kFirstBytes);
    bytes.resize(file ? file->read_at(0, bytes.data(), bytes.size()) : 0);
    const Result<format::JournalIndex> index = format::index_journal(bytes);
    if (!index || index->parts.empty()) {
        return false;
    }
    const Result<format::MarkerBlock> block =
        format::read_block(std::span(bytes).subspan(index->parts.front().offset_bytes));
    return block && static_cast<int64_t>(block->header.first_anchor.realtime_ns) > time_ns;
}

}  // namespace titan::analyzer
