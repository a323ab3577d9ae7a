#include "loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "condense.h"
#include "formats/digest_layout.h"
#include "formats/dump_layout.h"
#include "formats/file_bytes.h"
#include "host/words.h"
#include "thread_position.h"

namespace titan::analyzer {
namespace {

using format::Error;
using format::Result;

constexpr size_t kFirstBytes = 4096;  // tell what a member is

enum class Content { kOther, kFlightRecorder, kDump, kDigest };

// By its first bytes; a member with one of our names is ours, so that a damaged one is named.
Content content_of(std::span<const std::byte> first, std::string_view name) {
    uint64_t magic = 0;
    std::memcpy(&magic, first.data(), std::min(first.size(), sizeof(magic)));
    if (magic == format::kDigestMagic || name.ends_with(".digest")) {
        return Content::kDigest;
    }
    if (magic == format::kDumpMagic || magic == format::kRingMagic || name.ends_with(".titan") ||
        name.ends_with(".ring")) {
        return Content::kDump;
    }
    return looks_like_flight_recorder(first) ? Content::kFlightRecorder : Content::kOther;
}

// The member that follows, whole. False: it is no record.
Result<bool> read_record(Archive& archive, std::string_view name, std::vector<std::byte>& bytes, Content& content) {
    bytes.clear();
    if (const auto error = archive.read(bytes, kFirstBytes)) {
        return *error;
    }
    content = content_of(bytes, name);
    if (content == Content::kOther) {
        return false;
    }
    if (const auto error = archive.read(bytes, format::kMaxFileBytes + 1)) {
        return *error;
    }
    if (bytes.size() > format::kMaxFileBytes) {
        return Error("larger than any record");
    }
    return true;
}

std::optional<Error> take_member(Source source, Content content, Loader& with, LoadOutcome& outcome) {
    const std::vector<std::byte>& bytes = with.scratch.bytes;
    if (content == Content::kFlightRecorder) {
        Result<Process> process = load_flight_recorder_bytes(std::move(source), with.scratch, with.groups);
        if (!process) {
            return process.error();
        }
        outcome.processes.push_back(std::move(*process));
    } else if (content == Content::kDigest) {
        Result<Digest> digest = read_digest_bytes(source, bytes);
        if (!digest) {
            return digest.error();
        }
        take_digest(std::move(*digest), with, outcome);
    } else {
        const Result<OpenedSource> opened = open_source_bytes(std::move(source), bytes, with.memory);
        if (!opened) {
            return opened.error();
        }
        take_opened(*opened, with, outcome);
    }
    return std::nullopt;
}

}  // namespace

void take_opened(const OpenedSource& opened, Loader& with, LoadOutcome& outcome) {
    if (!with.only_host.empty() && format::fixed_text(opened.image.header().host) != with.only_host) {
        return;
    }
    for (const std::string& problem : opened.problems) {
        outcome.problems.push_back(opened.source.label + ": " + problem + "; the intact parts are used");
    }
    Process process = decode_process(opened, &with.symbols);
    condense(process);
    decode_positions(opened.stacks, with.symbols, process);
    outcome.processes.push_back(std::move(process));
}

void take_digest(Digest digest, Loader& with, LoadOutcome& outcome) {
    for (const auto& [id, ranks] : digest.group_ranks) {
        with.groups.add(id, ranks);
    }
    std::move(digest.problems.begin(), digest.problems.end(), std::back_inserter(outcome.problems));
    for (Process& process : digest.processes) {
        if (with.only_host.empty() || process.host == with.only_host) {
            outcome.processes.push_back(std::move(process));
        }
    }
}

void load_archive(const std::string& path, Archive& archive, Loader& with, LoadOutcome& outcome) {
    const std::string name = printable(path.substr(path.rfind('/') + 1));
    size_t records = 0;
    for (;;) {
        const auto member = archive.next();
        if (!member || !*member) {
            if (!member) {
                outcome.problems.push_back(
                    fmt::format("{}: {}; the part read before is used", name, member.error().text()));
            }
            break;
        }
        Source source;
        source.path = path;
        source.member = (*member)->name;
        source.label = name + ":" + printable(source.member);
        source.written_ns = (*member)->modified_ns;
        Content content{};
        const Result<bool> is_record = read_record(archive, source.member, with.scratch.bytes, content);
        if (!is_record) {
            outcome.problems.push_back(fmt::format("{}: {}; skipped", source.label, is_record.error().text()));
        } else if (*is_record) {
            ++records;
            if (const auto error = take_member(std::move(source), content, with, outcome)) {
                outcome.problems.push_back(error->text() + "; skipped");
            }
        }
    }
    if (records == 0) {
        outcome.problems.push_back(name + ": no dump, ring or Flight Recorder file is in it");
    }
}

bool holds_records(const std::string& path) {
    constexpr int kMembers = 64;
    Result<Archive> archive = Archive::open(path);
    std::vector<std::byte> first;
    for (int i = 0; archive && i < kMembers; ++i) {
        const auto member = archive->next();
        first.clear();
        if (!member || !*member || archive->read(first, kFirstBytes)) {
            return false;
        }
        if (content_of(first, (*member)->name) != Content::kOther) {
            return true;
        }
    }
    return false;
}

}  // namespace titan::analyzer
