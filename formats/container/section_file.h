// The common structure of dumps, digests and journals: a file header, sections of one zstd frame each, and an end
// section. Sizes in a file are claims; each is checked before a byte is written.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/layout/dump_layout.h"
#include "host/result.h"

namespace titan::format {

struct FileKind {
    const char* name;
    uint64_t magic;
    uint16_t major;  // another one is refused
    uint16_t minor;
    uint32_t max_sections;
    bool grows = false;  // sections are appended while it is read: it may end behind any of them
};

struct Section {
    SectionHeader header{};
    std::span<const std::byte> stored;
    uint32_t number = 0;  // counts from 1, for people
};

struct SectionList {
    std::vector<Section> sections;
    std::vector<std::string> problems;
};

struct FreeContext {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using Context = std::unique_ptr<ZSTD_DCtx, FreeContext>;

template <typename T>
T copy_from(std::span<const std::byte> bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

uint64_t checksum(std::span<const std::byte> bytes);

// The size of the header, or why this is no file of this kind that we can read.
Result<size_t> check_file_header(std::span<const std::byte> file, const FileKind& kind);

// What is wrong with a section's header, of which so many bytes follow in the file; an empty string: nothing.
std::string header_problem(const SectionHeader& header, uint64_t available_bytes);

// Walks the section headers; stops at the first that cannot be trusted, because the next one's place depends on it.
SectionList list_sections(std::span<const std::byte> file, size_t offset, const FileKind& kind);

// The reason why the section's claims cannot be true, or an empty string; implausible() checks its stored bytes, too.
std::string impossible(const Section& section, uint64_t limit_bytes);
std::string implausible(const Section& section, uint64_t limit_bytes);

// Unpacks the section's raw_bytes; says why not, or nothing.
std::string unpack(ZSTD_DCtx* context, const Section& section, std::byte* into);
// Likewise, if it is plausible.
std::string unpack(ZSTD_DCtx* context, const Section& section, uint64_t limit_bytes, std::vector<std::byte>& raw);
// Unpacks the beginning of a frame, from the beginning of its stored bytes.
bool unpack_beginning(ZSTD_DCtx* context, std::span<const std::byte> stored, void* into, size_t size_bytes);

std::string in_section(uint32_t number, const std::string& what);

}  // namespace titan::format
