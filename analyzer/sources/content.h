// Recognizes a file or a member of an archive by its first bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace titan::analyzer {

inline constexpr size_t kFirstBytes = 4096;  // tell what it is

enum class Content { kOther, kFlightRecorder, kDump, kDigest };

// A file with one of our names counts as ours, so that a damaged one is reported.
Content content_of(std::span<const std::byte> first_bytes, std::string_view name);

// PyTorch's: a pickle, or JSON with the keys of such a dump.
bool is_flight_recorder(const std::string& path);
// Whether the file is from torchtitan's structured logger (structured_log.h).
bool is_structured_log(const std::string& path);
// An archive among whose first files is a record.
bool holds_records(const std::string& path);

}  // namespace titan::analyzer
