#include "base/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "base/process.h"
#include "base/text.h"

namespace titan {
namespace {

bool take_hex(const char*& at, const char* end, uint64_t& value) {
    value = 0;
    const char* start = at;
    for (; at < end; ++at) {
        const char c = *at;
        if (c >= '0' && c <= '9') {
            value = value << 4 | static_cast<uint64_t>(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = value << 4 | static_cast<uint64_t>(c - 'a' + 10);
        } else {
            break;
        }
    }
    return at > start && at - start <= 16;
}

bool take(const char*& at, const char* end, char wanted) { return at < end && *at++ == wanted; }

void skip_word(const char*& at, const char* end) {
    while (at < end && *at != ' ') {
        ++at;
    }
    while (at < end && *at == ' ') {
        ++at;
    }
}

// start-end perms offset device inode path
bool parse(char* line, size_t length_bytes, Mapping& mapping) {
    const char* at = line;
    const char* const end = line + length_bytes;
    if (!take_hex(at, end, mapping.start) || !take(at, end, '-') || !take_hex(at, end, mapping.end) ||
        !take(at, end, ' ') || end - at < 5) {
        return false;
    }
    mapping.readable = *at == 'r';
    skip_word(at, end);
    if (!take_hex(at, end, mapping.file_offset) || !take(at, end, ' ')) {
        return false;
    }
    skip_word(at, end);
    skip_word(at, end);
    line[length_bytes] = '\0';  // replaces the newline
    mapping.path = at;
    return true;
}

}  // namespace

MapsReader::MapsReader(int32_t pid, char* room, size_t room_bytes) : room_(room), room_bytes_(room_bytes) {
    const int saved = errno;
    fd_ = open_proc(pid, "maps");
    error_ = fd_ < 0 ? errno : 0;
    errno = saved;
}

MapsReader::~MapsReader() {
    if (fd_ >= 0) {
        const int saved = errno;
        close(fd_);
        errno = saved;
    }
}

bool MapsReader::next_line(char*& line, size_t& length_bytes) {
    const int saved = errno;
    while (fd_ >= 0) {
        char* const newline = static_cast<char*>(std::memchr(room_ + begin_, '\n', end_ - begin_));
        if (newline != nullptr) {
            line = room_ + begin_;
            length_bytes = static_cast<size_t>(newline - line);
            begin_ += length_bytes + 1;
            if (!skipping_) {
                errno = saved;
                return true;
            }
            skipping_ = false;
            continue;
        }
        if (begin_ == 0 && end_ == room_bytes_) {
            skipping_ = true;  // a line longer than the room: drop it piece by piece
            end_ = 0;
        }
        std::memmove(room_, room_ + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
        const ssize_t got = ::read(fd_, room_ + end_, room_bytes_ - end_);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            error_ = got < 0 ? errno : 0;
            break;
        }
        end_ += static_cast<size_t>(got);
    }
    errno = saved;
    return false;
}

bool MapsReader::next(Mapping& mapping) {
    char* line;
    size_t length_bytes;
    while (next_line(line, length_bytes)) {
        if (parse(line, length_bytes, mapping)) {
            return true;
        }
    }
    return false;
}

}  // namespace titan
