#include "take_record.h"

#include <fmt/format.h>

#include <algorithm>

#include "condense.h"
#include "decode_process.h"
#include "discover.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "thread_position.h"

namespace titan::analyzer {
namespace {

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
    if (const auto error = archive.read(bytes, kMaxFileBytes + 1)) {
        return *error;
    }
    if (bytes.size() > kMaxFileBytes) {
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
    if (opened.extent == format::DumpExtent::kAll) {
        condense(process);
        decode_positions(opened.stacks, with.symbols, process);
        decode_samples(opened.image, with.symbols, process);
    }
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
    const std::string name = printable(base_name(path));
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

}  // namespace titan::analyzer
