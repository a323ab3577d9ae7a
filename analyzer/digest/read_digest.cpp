#include "read_digest.h"

#include <fmt/format.h>

#include <filesystem>

#include "digest_sections.h"
#include "formats/container/digest_file.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "pack_process.h"

namespace titan::analyzer {

namespace files = std::filesystem;
using format::DigestSection;

Result<Digest> read_digest_file(const std::string& path) {
    const std::string label = printable(files::path(path).filename().string());
    const Result<OpenFile> file = OpenFile::open(path);
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

}  // namespace titan::analyzer
