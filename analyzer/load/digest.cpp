#include "digest.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "condense.h"
#include "formats/digest_file.h"
#include "formats/file_bytes.h"
#include "formats/packed.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

namespace files = std::filesystem;
using format::DigestSection;
using format::Error;
using format::Result;

constexpr size_t kMaxProblems = 64;

std::vector<std::byte> pack_problems(std::vector<std::string> problems) {
    format::Packer packer;
    problems.resize(std::min(problems.size(), kMaxProblems));
    packer.count(problems.size(), 1);
    for (const std::string& problem : problems) {
        packer.text(problem);
    }
    return packer.bytes();
}

void unpack_problems(std::span<const std::byte> bytes, std::vector<std::string>& problems) {
    format::Unpacker unpacker(bytes);
    const size_t count = std::min(unpacker.count(0, 1), kMaxProblems);
    for (size_t i = 0; i < count && unpacker.good(); ++i) {
        std::string problem;
        unpacker.text(problem);
        problems.push_back(printable(problem));
    }
}

using Groups = std::unordered_map<uint64_t, std::vector<int32_t>>;

std::vector<std::byte> pack_groups(const Groups& groups) {
    format::Packer packer;
    packer.count(groups.size(), 2);
    for (const auto& [id, ranks] : std::map(groups.begin(), groups.end())) {
        packer.number(id);
        packer.count(ranks.size(), 1);
        uint64_t before = 0;
        for (const int32_t rank : ranks) {
            packer.delta(rank, before);
        }
    }
    return packer.bytes();
}

void unpack_groups(std::span<const std::byte> bytes, Groups& groups) {
    format::Unpacker unpacker(bytes);
    const size_t count = unpacker.count(0, 2);
    for (size_t i = 0; i < count && unpacker.good(); ++i) {
        uint64_t id = 0;
        unpacker.number(id);
        std::vector<int32_t> ranks(unpacker.count(0, 1));
        uint64_t before = 0;
        for (int32_t& rank : ranks) {
            unpacker.delta(rank, before);
        }
        if (unpacker.good()) {
            groups[id] = std::move(ranks);
        }
    }
}

std::optional<Error> write_digest(const std::string& path, const std::vector<const Process*>& processes,
                                  const std::vector<std::string>& problems, const Groups& groups,
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
    if (const auto problem = format::write_private_file(path, file)) {
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

std::string this_host() {
    char name[256] = {};
    return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace

Result<Digest> read_digest_file(const std::string& path) {
    const std::string label = printable(files::path(path).filename().string());
    const Result<format::OpenFile> file = format::OpenFile::open(path);
    if (!file) {
        return file.error().within(label);
    }
    Source source;
    source.path = path;
    source.label = label;
    return read_digest_bytes(source, *file->read_all());
}

Result<Digest> read_digest_bytes(const Source& source, std::span<const std::byte> bytes) {
    const std::string& label = source.label;
    Digest digest;
    size_t number = 0;
    const auto read = format::read_digest(bytes, [&](DigestSection kind, std::span<const std::byte> raw) {
        if (kind == DigestSection::kProblems) {
            unpack_problems(raw, digest.problems);
            return;
        }
        if (kind == DigestSection::kGroups) {
            unpack_groups(raw, digest.group_ranks);
            return;
        }
        ++number;
        Result<Process> process = unpack_process(raw);
        if (process) {
            process->source.path = source.path;
            process->source.is_digest = true;
            digest.processes.push_back(std::move(*process));
        } else {
            digest.problems.push_back(process.error().within(fmt::format("{}: process {}", label, number)).text() +
                                      "; skipped");
        }
    });
    if (!read) {
        return read.error().within(label);
    }
    for (const std::string& problem : *read) {
        digest.problems.push_back(label + ": " + problem + "; the intact parts are used");
    }
    return digest;
}

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
    // What could not be read has no node: it is told once.
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
