// Files of PyTorch's Flight Recorder: which they are, whose they are, what they say.
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "analyzer/flight_recorder.h"
#include "analyzer/text.h"
#include "formats/file_bytes.h"
#include "formats/fr/read.h"

namespace titan::analyzer {
namespace {

using format::Error;
using format::Result;

constexpr size_t kLookBytes = 4096;
constexpr uint64_t kMaxBytes = uint64_t{1} << 29;

}  // namespace

bool is_flight_recorder(const std::string& path) {
    const Result<format::OpenFile> file = format::OpenFile::open(path);
    if (!file) {
        return false;
    }
    std::array<std::byte, kLookBytes> first{};
    const size_t size = file->read_at(0, first.data(), first.size());
    const std::span<const std::byte> bytes(first.data(), size);
    switch (format::fr::guess_encoding(bytes)) {
        case format::fr::Encoding::kPickle: return true;
        case format::fr::Encoding::kUnknown: return false;
        case format::fr::Encoding::kJson: break;
    }
    const std::string_view text(reinterpret_cast<const char*>(first.data()), size);
    constexpr std::string_view kKeys[] = {"\"pg_config\"", "\"pg_status\"", "\"collective_seq_id\""};
    return std::any_of(std::begin(kKeys), std::end(kKeys),
                       [&](std::string_view key) { return text.find(key) != std::string_view::npos; });
}

int rank_in_name(std::string_view name) {
    // An extension, but not the rank of a name such as trace.3.
    if (const size_t dot = name.rfind('.');
        dot != std::string_view::npos && name.find_first_not_of("0123456789", dot + 1) != std::string_view::npos) {
        name = name.substr(0, dot);
    }
    size_t begin = name.size();
    while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') {
        --begin;
    }
    int rank = -1;
    const auto [end, error] = std::from_chars(name.data() + begin, name.data() + name.size(), rank);
    constexpr int kMaxRank = 1 << 20;
    return error == std::errc() && rank < kMaxRank ? rank : -1;
}

Result<format::fr::Dump> read_flight_recorder(const std::string& path, FlightRecorderScratch& scratch) {
    const Result<format::OpenFile> file = format::OpenFile::open(path);
    if (!file) {
        return file.error();
    }
    if (file->size_bytes() > kMaxBytes) {
        return Error("larger than any Flight Recorder dump");
    }
    scratch.bytes.resize(file->size_bytes());
    scratch.bytes.resize(file->read_at(0, scratch.bytes.data(), scratch.bytes.size()));
    if (const auto error = format::fr::read(scratch.bytes, scratch.tree)) {
        return *error;
    }
    return format::fr::to_dump(scratch.tree, scratch.bytes.size());
}

Result<Process> load_flight_recorder(const std::string& path, FlightRecorderScratch& scratch, GroupRanks& groups) {
    const std::string name = std::filesystem::path(path).filename().string();
    const std::string label = printable(name);
    const Result<format::fr::Dump> dump = read_flight_recorder(path, scratch);
    if (!dump) {
        return Error(printable(dump.error().text())).within(label);
    }
    const int rank = dump->rank >= 0 ? static_cast<int>(dump->rank) : rank_in_name(name);
    if (rank < 0) {
        return Error(label + ": whose dump it is cannot be told: its name does not end in a rank, and it holds none");
    }
    const Result<format::OpenFile> file = format::OpenFile::open(path);
    Process process = process_of_dump(*dump, rank, file ? file->modified_ns() : 0, groups);
    process.source.path = path;
    process.source.label = label;
    process.source.is_flight_recorder = true;
    return process;
}

}  // namespace titan::analyzer
