// Readers of the encodings that a Flight Recorder dump comes in. Neither executes anything: of pickle, only the opcodes
// of plain data are known (protocols 0 to 5), and every other one is an error that names it. Memory is bounded by a
// multiple of the input's size. Errors say the byte at which they were found.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "formats/fr/tree.h"
#include "host/result.h"

namespace titan::format::fr {

// Decided by content, never by name: a pickle of protocol 2 or later begins with 0x80, JSON with a brace.
enum class Encoding { kUnknown, kPickle, kJson };
Encoding guess_encoding(std::span<const std::byte> first_bytes);

// Fill the tree, which is cleared first. On an error its content means nothing.
std::optional<Error> read_pickle(std::span<const std::byte> bytes, Tree& tree);
std::optional<Error> read_json(std::span<const std::byte> bytes, Tree& tree);
// Chooses the reader by the first bytes.
std::optional<Error> read(std::span<const std::byte> bytes, Tree& tree);

}  // namespace titan::format::fr
