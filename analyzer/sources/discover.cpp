#include "discover.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>

#include "formats/fr/read.h"
#include "formats/layout/digest_layout.h"
#include "formats/layout/dump_layout.h"
#include "formats/layout/dump_name.h"
#include "formats/layout/journal_layout.h"
#include "formats/layout/ring_layout.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "record_archive.h"
#include "structured_log.h"
#include "witness.h"

namespace titan::analyzer {
namespace {

namespace files = std::filesystem;

// <dumps>/<run>/<attempt>/file is three levels; a few more for directories gathered from several nodes.
constexpr int kMaxDepth = 6;
constexpr std::string_view kLogSuffix = ".jsonl";

// rank00003.12.titan -> stem rank00003, number 12.
void split_name(const std::string& name, Candidate& candidate) {
    candidate.stem = name.substr(0, name.find('.'));
    const size_t dot = name.find('.');
    if (dot != std::string::npos) {
        const char* begin = name.data() + dot + 1;
        std::from_chars(begin, name.data() + name.size(), candidate.number);
    }
    if (candidate.is_ring || candidate.is_digest) {
        candidate.stem = name;
    }
}

struct Collected {
    std::map<std::pair<std::string, std::string>, CandidateGroup> groups;
    std::vector<std::string> logs;
    std::vector<std::string> witnesses;
    CandidateGroup strange;  // named files that nothing is known of by name or content
    std::string denied;      // the first directory that may not be read
    size_t empty_files = 0;
    std::string first_empty;
    size_t other_files = 0;
    std::string first_other;
};

// A dump, ring or digest by any other name.
bool has_our_magic(const std::string& path) {
    uint64_t magic = 0;
    const auto file = OpenFile::open(path);
    if (!file || file->read_at(0, &magic, sizeof(magic)) != sizeof(magic)) {
        return false;
    }
    const auto ours = {format::kRingMagic, format::kDumpMagic, format::kDigestMagic};
    return std::any_of(ours.begin(), ours.end(),
                       [&](uint64_t known) { return magic == known || magic == __builtin_bswap64(known); });
}

// The group of a file that was written at that time.
CandidateGroup& group_of(const files::path& path, bool named, int64_t modified_ns, Collected& collected) {
    const RunDirectory directory(path.string());
    const auto key = directory.attempt.empty()
                         ? std::pair(std::string(), named ? std::string() : path.parent_path().string())
                         : std::pair(directory.run, directory.attempt);
    CandidateGroup& group = collected.groups[key];
    group.run = directory.run;
    group.attempt = directory.attempt;
    group.newest_ns = std::max(group.newest_ns, modified_ns);
    return group;
}

void add_file(const files::path& path, bool named, Collected& collected) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return;
    }
    const std::string name = path.filename().string();
    if (!named && is_verdict_name(name)) {
        return;  // ours, on these dumps
    }
    const int64_t modified_ns = static_cast<int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
    if (name.ends_with(format::kJournalSuffix)) {
        group_of(path, named, modified_ns, collected).journals.push_back(path.string());
        return;
    }
    Candidate candidate;
    candidate.path = path.string();
    candidate.directory = path.parent_path().string();
    candidate.is_ring = name.ends_with(".ring");
    candidate.is_digest = name.ends_with(".digest");
    candidate.size_bytes = static_cast<uint64_t>(status.st_size);
    candidate.modified_ns = modified_ns;
    const bool foreign = !candidate.is_ring && !candidate.is_digest && !format::is_dump_name(name);
    candidate.is_archive = foreign && is_archive_name(name) && (named || holds_records(candidate.path));
    candidate.is_flight_recorder = foreign && !candidate.is_archive && is_flight_recorder(candidate.path);
    const bool unknown = foreign && !candidate.is_flight_recorder && !candidate.is_archive;
    if (unknown && (named || name.ends_with(kLogSuffix)) && is_structured_log(candidate.path)) {
        collected.logs.push_back(candidate.path);
        return;
    }
    if (unknown && (named ? is_witness_file(candidate.path) : is_witness_name(name) && status.st_size != 0)) {
        collected.witnesses.push_back(candidate.path);
        return;
    }
    if (unknown && !named) {
        collected.first_other = collected.other_files++ == 0 ? name : collected.first_other;
        return;
    }
    if (status.st_size == 0) {
        ++collected.empty_files;
        collected.first_empty = collected.first_empty.empty() ? name : collected.first_empty;
        return;
    }
    split_name(name, candidate);
    if (unknown && !has_our_magic(candidate.path)) {
        collected.strange.newest_ns = std::max(collected.strange.newest_ns, candidate.modified_ns);
        collected.strange.files.push_back(std::move(candidate));
        return;
    }
    if (candidate.is_flight_recorder || candidate.is_archive) {
        candidate.stem = name;
    }
    group_of(path, named, modified_ns, collected).files.push_back(std::move(candidate));
}

void walk(const files::path& directory, int depth, Collected& collected) {
    std::error_code failed;
    const files::directory_iterator items(directory, failed);
    if (failed == std::errc::permission_denied && collected.denied.empty()) {
        collected.denied = directory.string();
    }
    for (const auto& item : items) {
        std::error_code ignored;
        if (item.is_directory(ignored) && !item.is_symlink(ignored)) {
            if (depth < kMaxDepth) {
                walk(item.path(), depth + 1, collected);
            }
        } else {
            add_file(item.path(), false, collected);
        }
    }
}

// Dumps and rings are for the owner of the job alone.
std::string denied_text(const std::string& directory) {
    struct stat status {};
    const bool known = ::stat(directory.c_str(), &status) == 0;
    return printable(directory) + ": permission denied: " +
           (known ? "it belongs to the user with id " + std::to_string(status.st_uid) + "; " : std::string()) +
           "run titan-analyze as the user that ran the job, or as root";
}

bool newer(const CandidateGroup& a, const CandidateGroup& b) {
    if (a.newest_ns != b.newest_ns) {
        return a.newest_ns > b.newest_ns;
    }
    // One second of a file system's clock can hold a whole restart: the higher attempt is the later one.
    return std::pair(a.attempt.size(), a.attempt) > std::pair(b.attempt.size(), b.attempt);
}

}  // namespace

Result<Discovery> discover(const std::vector<std::string>& paths) {
    Collected collected;
    for (const std::string& path : paths) {
        std::error_code failed;
        const files::file_status status = files::status(path, failed);
        if (!files::exists(status)) {
            return Error(printable(path) + ": no such file or directory");
        }
        if (files::is_directory(status)) {
            walk(path, 0, collected);
        } else {
            add_file(path, true, collected);
        }
    }
    Discovery discovery;
    // Files of unknown content are left out if there are records; otherwise the error is about them.
    if (collected.groups.empty() && !collected.strange.files.empty()) {
        discovery.groups.push_back(collected.strange);
        collected.strange.files.clear();
    }
    for (const Candidate& candidate : collected.strange.files) {
        discovery.warnings.push_back(
            {WarningKind::kDamagedFile,
             {},
             printable(files::path(candidate.path).filename().string()) +
                 ": not read: neither a record nor a log that says anything about the job's end"});
    }
    for (auto& [key, group] : collected.groups) {
        std::sort(group.files.begin(), group.files.end(), [](const Candidate& a, const Candidate& b) {
            return std::tie(a.directory, a.stem, b.number, a.path) < std::tie(b.directory, b.stem, a.number, b.path);
        });
        std::sort(group.journals.begin(), group.journals.end());
        discovery.groups.push_back(std::move(group));
    }
    std::sort(discovery.groups.begin(), discovery.groups.end(), newer);
    std::sort(collected.logs.begin(), collected.logs.end());
    discovery.logs = std::move(collected.logs);
    std::sort(collected.witnesses.begin(), collected.witnesses.end());
    discovery.witnesses = std::move(collected.witnesses);
    discovery.other_files = collected.other_files;
    discovery.first_other = std::move(collected.first_other);
    if (!collected.denied.empty()) {
        discovery.warnings.push_back({WarningKind::kDamagedFile, {}, denied_text(collected.denied)});
    }
    if (collected.empty_files != 0) {
        discovery.warnings.push_back(
            {WarningKind::kDamagedFile,
             {},
             collected.empty_files == 1
                 ? printable(collected.first_empty) +
                       ": empty file, skipped: the disk was full or the job was killed while it was created"
                 : grouped_digits(collected.empty_files) + " empty files skipped (" + printable(collected.first_empty) +
                       " is one): the disk was full or the job was killed while they were created"});
    }
    return discovery;
}

// --- the directories of a run

namespace {

bool all_digits(const std::string& text) {
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

RunDirectory::RunDirectory(const std::string& path) {
    const std::filesystem::path absolute = std::filesystem::absolute(path).lexically_normal();
    attempt = absolute.parent_path().filename().string();
    run = absolute.parent_path().parent_path().filename().string();
    if (!all_digits(attempt)) {
        run.clear();
        attempt.clear();
    }
}

// --- what a file is

namespace {

bool looks_like_flight_recorder(std::span<const std::byte> first_bytes) {
    switch (format::fr::guess_encoding(first_bytes)) {
        case format::fr::Encoding::kPickle: return true;
        case format::fr::Encoding::kUnknown: return false;
        case format::fr::Encoding::kJson: break;
    }
    const std::string_view text(reinterpret_cast<const char*>(first_bytes.data()), first_bytes.size());
    constexpr std::string_view kKeys[] = {"\"pg_config\"", "\"pg_status\"", "\"collective_seq_id\""};
    return std::any_of(std::begin(kKeys), std::end(kKeys),
                       [&](std::string_view key) { return text.find(key) != std::string_view::npos; });
}

// None where it cannot be read.
std::vector<std::byte> first_bytes_of(const std::string& path) {
    std::vector<std::byte> first(kFirstBytes);
    const Result<OpenFile> file = OpenFile::open(path);
    first.resize(file ? file->read_at(0, first.data(), first.size()) : 0);
    return first;
}

}  // namespace

Content content_of(std::span<const std::byte> first, std::string_view name) {
    uint64_t magic = 0;
    std::memcpy(&magic, first.data(), std::min(first.size(), sizeof(magic)));
    if (magic == format::kDigestMagic || name.ends_with(".digest")) {
        return Content::kDigest;
    }
    if (magic == format::kDumpMagic || magic == format::kRingMagic || format::is_dump_name(name) ||
        name.ends_with(".ring")) {
        return Content::kDump;
    }
    return looks_like_flight_recorder(first) ? Content::kFlightRecorder : Content::kOther;
}

bool is_flight_recorder(const std::string& path) { return looks_like_flight_recorder(first_bytes_of(path)); }

bool is_structured_log(const std::string& path) {
    const std::vector<std::byte> first = first_bytes_of(path);
    return looks_like_structured_log({reinterpret_cast<const char*>(first.data()), first.size()});
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
