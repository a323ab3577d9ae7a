#include "write_digests.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "digest_sections.h"
#include "formats/container/digest_file.h"
#include "host/file_bytes.h"
#include "host/this_host.h"
#include "host/words.h"
#include "load_files.h"
#include "pack_process.h"

namespace titan::analyzer {
namespace {

namespace files = std::filesystem;
using format::DigestSection;

std::optional<Error> write_digest(const std::string& path, const std::vector<const Process*>& processes,
                                  const std::vector<std::string>& problems, const DigestGroups& groups,
                                  DigestResult& result) {
    format::DigestBuilder builder;
    const bool groups_fit = groups.empty() || builder.add(DigestSection::kGroups, pack_groups(groups));
    bool whole = problems.empty() || builder.add(DigestSection::kProblems, pack_problems(problems));
    for (const Process* process : processes) {
        whole &= builder.add(DigestSection::kProcess, pack_process(*process));
    }
    const std::vector<std::byte> file = builder.finish();
    if (!whole || !groups_fit) {
        return Error(path + ": a process does not fit into a digest");
    }
    std::error_code failed;
    files::create_directories(files::absolute(path).parent_path(), failed);
    if (const auto problem = write_private_file(path, file)) {
        return problem->within(path);
    }
    result.written.push_back(path);
    result.processes += processes.size();
    result.bytes += file.size();
    return std::nullopt;
}

// Host and the boot that it runs in: two machines may both be called localhost.
std::string name_of_node(const Process& process) {
    return fmt::format("{}-{}.digest", safe_file_name(process.host.empty() ? "host" : process.host),
                       safe_file_name(process.boot_id.empty() ? "boot" : process.boot_id.substr(0, 8)));
}

}  // namespace

Result<DigestResult> write_digests(const DigestOptions& options) {
    LoadOptions load = options.load;
    load.only_host = options.only_this_node ? this_host() : std::string();
    const Result<LoadedProcesses> loaded = load_processes(load);
    if (!loaded) {
        return loaded.error();
    }
    DigestResult result;
    result.problems = loaded->problems;
    using Node = std::tuple<std::string, int32_t, std::string>;
    std::map<Node, std::vector<const Process*>> of_node;
    for (const Process& process : loaded->processes) {
        const Node node = options.file.empty() ? Node(process.run, process.attempt, name_of_node(process)) : Node();
        of_node[node].push_back(&process);
    }
    // An unreadable file belongs to no node: it is reported once.
    std::vector<std::string> problems = loaded->problems;
    for (auto& [key, processes] : of_node) {
        const auto& [run, attempt, node] = key;
        const std::string path =
            !options.file.empty()
                ? options.file
                : fmt::format("{}/{}/{}/{}", options.into, safe_file_name(run.empty() ? "run" : run), attempt, node);
        if (auto problem = write_digest(path, processes, problems, loaded->group_ranks, result)) {
            return *problem;
        }
        problems.clear();
    }
    return result;
}

}  // namespace titan::analyzer
