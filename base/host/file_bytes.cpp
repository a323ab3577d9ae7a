#include "host/file_bytes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"

namespace titan {

OpenFile::OpenFile(int descriptor, const struct stat& status)
    : descriptor_(descriptor),
      size_bytes_(static_cast<uint64_t>(status.st_size)),
      modified_ns_(std::clamp<int64_t>(status.st_mtim.tv_sec, 0, kLatestNs / 1'000'000'000) * 1'000'000'000 +
                   status.st_mtim.tv_nsec),
      owner_(status.st_uid) {}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_),
      modified_ns_(other.modified_ns_),
      owner_(other.owner_) {}

OpenFile::~OpenFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
}

Result<OpenFile> OpenFile::open(const std::string& path, Links links, uint64_t most_bytes) {
    // O_NONBLOCK: a planted FIFO must not hold us.
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (links == Links::kRefuse ? O_NOFOLLOW : 0);
    const int descriptor = ::open(path.c_str(), flags);
    if (descriptor < 0) {
        return Error(std::string("cannot open: ") + std::strerror(errno));
    }
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(descriptor);
        return Error("not a regular file");
    }
    OpenFile file(descriptor, status);
    if (file.size_bytes() > most_bytes) {
        return Error("implausibly large: " + std::to_string(file.size_bytes()) + " bytes");
    }
    return file;
}

size_t OpenFile::read_at(uint64_t offset_bytes, void* into, size_t size_bytes) const {
    return titan::read_at(descriptor_, offset_bytes, into, size_bytes);
}

Result<std::vector<std::byte>> OpenFile::read_all() const {
    std::vector<std::byte> bytes(size_bytes_);
    bytes.resize(read_at(0, bytes.data(), bytes.size()));
    return bytes;
}

bool OpenFile::read_into(ImageBuffer& image) const {
    if (!image.reset(size_bytes_)) {
        return false;
    }
    uint64_t offset = 0;
    while (offset < size_bytes_) {
        const off_t begin = ::lseek(descriptor_, static_cast<off_t>(offset), SEEK_DATA);
        if (begin < 0) {
            if (errno == ENXIO) {
                break;  // only holes from here on
            }
            const size_t rest = size_bytes_ - offset;
            read_at(offset, image.write_at(offset, rest), rest);
            break;
        }
        off_t end = ::lseek(descriptor_, begin, SEEK_HOLE);
        end = end < begin ? static_cast<off_t>(size_bytes_) : std::min(end, static_cast<off_t>(size_bytes_));
        if (end <= begin) {
            break;
        }
        const auto length = static_cast<size_t>(end - begin);
        read_at(static_cast<uint64_t>(begin), image.write_at(static_cast<size_t>(begin), length), length);
        offset = static_cast<uint64_t>(end);
    }
    return true;
}

PrivateFile::PrivateFile(std::string path, std::string temporary, Fd file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

PrivateFile::PrivateFile(PrivateFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)),
      error_(other.error_) {}

PrivateFile::~PrivateFile() {
    if (!temporary_.empty()) {
        ::unlink(temporary_.c_str());
    }
}

Result<PrivateFile> PrivateFile::create(std::string path) {
    std::string temporary = path + ".tmpXXXXXX";
    Fd file(::mkostemp(temporary.data(), O_CLOEXEC));  // 0600, and never through a link
    if (!file.valid()) {
        return Error(std::strerror(errno));
    }
    return PrivateFile(std::move(path), std::move(temporary), std::move(file));
}

bool PrivateFile::write(std::span<const std::byte> bytes) {
    if (error_ == 0 && !write_all(file_.get(), bytes.data(), bytes.size())) {
        error_ = errno;
    }
    return error_ == 0;
}

std::optional<Error> PrivateFile::finish() {
    if (error_ == 0 && (!file_.close_now() || ::rename(temporary_.c_str(), path_.c_str()) != 0)) {
        error_ = errno;
    }
    if (error_ != 0) {
        return Error(std::strerror(error_));
    }
    temporary_.clear();
    return std::nullopt;
}

std::optional<Error> write_private_file(const std::string& path, std::span<const std::byte> bytes) {
    Result<PrivateFile> file = PrivateFile::create(path);
    if (!file) {
        return file.error();
    }
    file->write(bytes);
    return file->finish();
}

}  // namespace titan
