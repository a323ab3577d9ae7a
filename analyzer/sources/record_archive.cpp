#include "record_archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <filesystem>

#include "host/words.h"

namespace titan::analyzer {
namespace {

// Texts full of the same words shrink to a hundredth at most; and small archives may do as they like.
constexpr uint64_t kMostGrowth = 256;
constexpr uint64_t kFreeBytes = uint64_t{64} << 20;
constexpr size_t kBlockBytes = 64 << 10;

constexpr std::string_view kEndings[] = {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".zip"};

// Only built-in formats: others would start programs.
archive* new_reader() {
    archive* reader = archive_read_new();
    if (reader != nullptr) {
        archive_read_support_format_tar(reader);
        archive_read_support_format_zip(reader);
        archive_read_support_filter_gzip(reader);
        archive_read_support_filter_bzip2(reader);
        archive_read_support_filter_xz(reader);
        archive_read_support_filter_zstd(reader);
    }
    return reader;
}

}  // namespace

bool is_archive_name(std::string_view file_name) {
    return std::any_of(std::begin(kEndings), std::end(kEndings),
                       [&](std::string_view ending) { return file_name.ends_with(ending); });
}

void Archive::Close::operator()(archive* open) const { archive_read_free(open); }

Archive::Archive(std::unique_ptr<archive, Close> open, uint64_t size_bytes)
    : open_(std::move(open)),
      budget_bytes_(kFreeBytes + std::min(size_bytes, UINT64_MAX / kMostGrowth / 2) * kMostGrowth) {}

Error Archive::failure() const {
    const char* why = archive_error_string(open_.get());
    return Error(std::string("not a readable archive: ") + (why == nullptr ? "damaged" : printable(why)));
}

Result<Archive> Archive::open(const std::string& path) {
    std::error_code failed;
    const uint64_t size_bytes = std::filesystem::file_size(path, failed);
    Archive made({new_reader(), Close()}, failed ? 0 : size_bytes);
    if (made.open_ == nullptr) {
        return Error("out of memory");
    }
    if (archive_read_open_filename(made.open_.get(), path.c_str(), kBlockBytes) != ARCHIVE_OK) {
        return made.failure();
    }
    return made;
}

Result<Archive> Archive::open(std::span<const std::byte> bytes) {
    Archive made({new_reader(), Close()}, bytes.size());
    if (made.open_ == nullptr) {
        return Error("out of memory");
    }
    if (archive_read_open_memory(made.open_.get(), bytes.data(), bytes.size()) != ARCHIVE_OK) {
        return made.failure();
    }
    return made;
}

Result<std::optional<ArchiveMember>> Archive::next() {
    for (;;) {
        // If everything is compressed as one, skipped members are unpacked, too.
        const auto unpacked = static_cast<uint64_t>(std::max<int64_t>(archive_filter_bytes(open_.get(), 0), 0));
        if (std::max(unpacked, read_bytes_) > budget_bytes_) {
            return Error("it unpacks to far more than its size: the rest is not read");
        }
        archive_entry* entry = nullptr;
        const int result = archive_read_next_header(open_.get(), &entry);
        if (result == ARCHIVE_EOF) {
            return std::optional<ArchiveMember>();
        }
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
            return failure();
        }
        const int64_t size_bytes = archive_entry_size_is_set(entry) != 0 ? archive_entry_size(entry) : 0;
        if (size_bytes < 0 || static_cast<uint64_t>(size_bytes) > budget_bytes_) {
            return Error("it unpacks to far more than its size: the rest is not read");
        }
        if (archive_entry_filetype(entry) != AE_IFREG) {
            continue;
        }
        ArchiveMember member;
        const char* name = archive_entry_pathname(entry);
        member.name = name == nullptr ? "(no name)" : name;
        const int64_t second = archive_entry_mtime(entry);
        constexpr int64_t kLastSecond = INT64_MAX / 2'000'000'000;
        if (archive_entry_mtime_is_set(entry) != 0 && second > 0 && second < kLastSecond) {
            member.modified_ns = second * 1'000'000'000 + archive_entry_mtime_nsec(entry);
        }
        return std::optional(std::move(member));
    }
}

std::optional<Error> Archive::read(std::vector<std::byte>& into, size_t most) {
    while (into.size() < most) {
        const size_t begin = into.size();
        into.resize(std::min(most, begin + std::max(begin, kBlockBytes)));
        const la_ssize_t got = archive_read_data(open_.get(), into.data() + begin, into.size() - begin);
        into.resize(begin + static_cast<size_t>(std::max<la_ssize_t>(got, 0)));
        read_bytes_ += into.size() - begin;
        if (got < 0) {
            return failure();
        }
        if (got == 0) {
            break;
        }
        if (read_bytes_ > budget_bytes_) {
            return Error("it unpacks to far more than its size: the rest is not read");
        }
    }
    return std::nullopt;
}

std::optional<Error> read_member(const std::string& path, const std::string& member, std::vector<std::byte>& into,
                                 size_t most) {
    Result<Archive> archive = Archive::open(path);
    if (!archive) {
        return archive.error();
    }
    for (;;) {
        const auto next = archive->next();
        if (!next) {
            return next.error();
        }
        if (!*next) {
            return Error("it is not in the archive any more");
        }
        if ((*next)->name == member) {
            return archive->read(into, most);
        }
    }
}

}  // namespace titan::analyzer
