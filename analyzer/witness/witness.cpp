// Recognizes witness files, and collects their statements.
#include "witness.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "host/file_bytes.h"
#include "host/words.h"
#include "readers.h"
#include "torch_watchdog.h"

namespace titan::analyzer {
namespace {

constexpr WitnessReader kReaders[] = {
    {"torchrun", is_torchrun_log, read_torchrun_log},
    {"error file", is_error_file, read_error_file},
    {"Slurm", is_slurm_log, read_slurm_log},
    {"sacct", is_sacct, read_sacct},
    {"mpirun", is_mpirun_log, read_mpirun_log},
    {"NCCL RAS", is_ras_json, read_ras_json, true},
    {"NCCL RAS", is_ras_text, read_ras_text},
    {"NCCL", is_nccl_log, read_nccl_log},
    {"torch.distributed.debug", is_torch_debug, read_torch_debug},
    {"PyTorch", is_torch_watchdog, read_torch_watchdog},
    {"torchcomms", is_torchcomms_clog, read_torchcomms_clog, true},
};

constexpr std::string_view kEndings[] = {".log", ".out", ".err", ".txt", ".json", ".stdout", ".stderr"};
constexpr std::string_view kBeginnings[] = {"slurm-", "sacct", "stdout", "stderr", "nccl"};

// Witnesses speak at the end of a log, and of long ones the rest is the program's own.
constexpr size_t kHeadBytes = size_t{1} << 20;
constexpr size_t kTailBytes = size_t{3} << 20;
constexpr size_t kMaxWholeBytes = size_t{128} << 20;
constexpr size_t kMaxTotalBytes = size_t{512} << 20;

// The whole file up to `most_bytes`, else its head and its tail.
std::optional<Error> read_ends(const std::string& path, std::string& text, int64_t& modified_ns,
                               size_t most_bytes = kHeadBytes + kTailBytes) {
    const Result<OpenFile> file = OpenFile::open(path);
    if (!file) {
        return file.error();
    }
    modified_ns = file->modified_ns();
    const uint64_t size = file->size_bytes();
    const size_t head = static_cast<size_t>(size > most_bytes ? kHeadBytes : size);
    text.resize(head);
    text.resize(file->read_at(0, text.data(), head));
    if (size > most_bytes) {
        std::string tail(kTailBytes, '\0');
        tail.resize(file->read_at(size - kTailBytes, tail.data(), tail.size()));
        text += "\n" + tail;
    }
    return std::nullopt;
}

bool wanted_whole(const WitnessFile& file) {
    return std::ranges::any_of(kReaders,
                               [&](const WitnessReader& reader) { return reader.whole && reader.recognises(file); });
}

// "attempt_0/2/error.json": torchrun calls each of them the same.
std::string witness_label(const std::filesystem::path& path) {
    std::filesystem::path label = path.filename();
    if (label == "error.json" || label == "stderr.log" || label == "stdout.log") {
        const std::filesystem::path rank = path.parent_path();
        label = rank.parent_path().filename() / rank.filename() / label;
    }
    return printable(label.string());
}

}  // namespace

bool is_witness_name(std::string_view name) {
    return std::ranges::any_of(kEndings, [&](auto ending) { return name.ends_with(ending); }) ||
           std::ranges::any_of(kBeginnings, [&](auto beginning) { return name.starts_with(beginning); });
}

bool is_witness_file(const std::string& path) {
    std::string text;
    WitnessFile file;
    if (read_ends(path, text, file.modified_ns)) {
        return false;
    }
    file.path = path;
    file.text = text;
    return std::ranges::any_of(kReaders, [&](const WitnessReader& reader) { return reader.recognises(file); });
}

std::vector<Testimony> testimonies_of(const WitnessFile& file) {
    std::vector<Testimony> all;
    for (const WitnessReader& reader : kReaders) {
        if (!reader.recognises(file)) {
            continue;
        }
        const size_t before = all.size();
        reader.read(file, all);
        for (size_t i = before; i < all.size(); ++i) {
            all[i].witness = reader.name;
            all[i].file = file.label;
            all[i].written_ns = file.modified_ns;
            all[i].text = printable(all[i].text);
            all[i].host = printable(all[i].host);
            all[i].message = printable(all[i].message);
        }
    }
    all.resize(std::min(all.size(), kMaxTestimonies));
    return all;
}

std::string ending_text(const Testimony& said) {
    std::string text = said.signal != 0       ? "killed by " + signal_text(said.signal)
                       : said.exit_status > 0 ? fmt::format("exited with status {}", said.exit_status)
                                              : std::string();
    if (said.out_of_memory) {
        text += text.empty() ? "ran out of memory" : ": out of memory";
    }
    return text;
}

std::vector<Testimony> read_witnesses(const std::vector<std::string>& paths, std::vector<std::string>& problems) {
    std::vector<Testimony> all;
    size_t total_bytes = 0;
    size_t left_out = 0;
    for (const std::string& path : paths) {
        if (total_bytes > kMaxTotalBytes || all.size() > kMaxTestimonies) {
            ++left_out;
            continue;
        }
        std::string text;
        WitnessFile file;
        if (const auto error = read_ends(path, text, file.modified_ns)) {
            problems.push_back(error->text() + "; skipped");
            continue;
        }
        file.path = path;
        file.label = witness_label(path);
        file.text = text;
        const bool cut = text.size() > kHeadBytes + kTailBytes;
        if (cut && wanted_whole(file) && !read_ends(path, text, file.modified_ns, kMaxWholeBytes)) {
            file.text = text;
        }
        total_bytes += text.size();
        std::vector<Testimony> said = testimonies_of(file);
        std::move(said.begin(), said.end(), std::back_inserter(all));
    }
    settle_ends_by_watchdogs(all);
    if (left_out != 0) {
        problems.push_back(
            fmt::format("{} log files beside the dumps were not read: there are too many; name the one that matters",
                        grouped_digits(left_out)));
    }
    return all;
}

// --- files that are not read

void warn_of_unread(Run& run) {
    for (const Testimony& said : run.testimony) {
        if (said.claim == Claim::kUnread) {
            run.warnings.push_back({WarningKind::kNotRead, {}, said.file + ": " + said.text});
        }
    }
    std::erase_if(run.testimony, [](const Testimony& said) { return said.claim == Claim::kUnread; });
}

}  // namespace titan::analyzer
