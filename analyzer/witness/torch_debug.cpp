// The periodic dumps of torch.distributed.debug (PyTorch 2.14 and later), NAME_YYYYMMDD_HHMMSS.txt of all ranks
// together:
//
//   === Rank 3: http://node-3:25999/handler/dump_traceback? ===
//   Thread 0x00007f1e (most recent call first):
//     File "/w/train.py", line 142 in step
//   === Rank 4: http://node-3:26000/handler/dump_traceback? ===
//   Error: 503
//
// Stacks (`stacks`, `pyspy_dump`) tell where each rank stood, and any of them which rank did not answer. The tables of
// `fr_trace` hold less than the Flight Recorder files that they were made of.
#include <fmt/format.h>

#include <algorithm>

#include "lines.h"
#include "readers.h"

namespace titan::analyzer {
namespace {

// One rank's part of the file.
struct RankPart {
    Testimony said;
    std::string place;       // innermost line of the program of the thread that was read last, the main thread
    bool in_main = false;    // py-spy names it
    bool has_place = false;  // for the thread that is being read
};

bool is_library(std::string_view file) {
    constexpr std::string_view kParts[] = {"/torch/", "/lib/python", "<frozen", "<string>"};
    return std::any_of(std::begin(kParts), std::end(kParts),
                       [&](std::string_view part) { return file.find(part) != std::string_view::npos; });
}

// "=== Rank 3: http://node-3:25999/handler/dump_traceback? ==="
bool begins_rank(std::string_view line, RankPart& part) {
    if (!line.starts_with("=== Rank ") || !line.ends_with(" ===") || line.find("/handler/") == std::string_view::npos) {
        return false;
    }
    line.remove_prefix(9);
    part = RankPart();
    part.said.rank = take_rank(line);
    return true;
}

void note_silence(int32_t rank, std::string_view why, std::vector<Testimony>& into) {
    Testimony said;
    said.rank = rank;
    said.claim = Claim::kSilent;
    said.text = fmt::format("rank {} did not answer: {}", rank, why.substr(0, 120));
    into.push_back(std::move(said));
}

// faulthandler: File "/w/train.py", line 142 in step; py-spy: step (train.py:142).
std::string place_of(std::string_view line) {
    std::string_view rest = line;
    if (take_until(rest, "File \"")) {
        const auto file = take_until(rest, "\", line ");
        const auto number = file && !is_library(*file) ? take_number(rest) : std::nullopt;
        return number && rest.starts_with(" in ") ? fmt::format("{}:{}{}", *file, *number, rest.substr(0, 80)) : "";
    }
    const std::string_view name = without_spaces(line.substr(0, line.find('(')));
    rest = line;
    if (!line.starts_with("    ") || name.empty() || !take_until(rest, "(")) {
        return "";
    }
    const auto place = take_until(rest, ")");
    return place && place->find(".py:") != std::string_view::npos && !is_library("/" + std::string(*place))
               ? fmt::format("{} in {}", *place, name.substr(0, 80))
               : "";
}

void read_stack_line(std::string_view line, RankPart& part) {
    if (line.find("Thread ") == 0 || line.find("Current thread ") == 0) {
        part.has_place = part.in_main && !part.place.empty();
        part.in_main = part.has_place || line.find("\"MainThread\"") != std::string_view::npos;
    } else if (!part.has_place) {
        if (std::string place = place_of(line); !place.empty()) {
            part.place = std::move(place);
            part.has_place = true;
        }
    }
}

void finish_rank(RankPart& part, std::vector<Testimony>& into) {
    if (part.said.rank >= 0 && !part.place.empty() && into.size() < kMaxTestimonies) {
        part.said.text = fmt::format("rank {} was at {}", part.said.rank, part.place);
        into.push_back(std::move(part.said));
    }
    part = RankPart();
}

}  // namespace

bool is_torch_debug(const WitnessFile& file) {
    return (file.text.find("=== Rank ") != std::string_view::npos &&
            file.text.find("/handler/") != std::string_view::npos) ||
           file.text.starts_with("=== FR Trace") || file.text.starts_with("PARTIAL DATA: ");
}

void read_torch_debug(const WitnessFile& file, std::vector<Testimony>& into) {
    if (file.text.find("=== FR Trace") != std::string_view::npos) {
        Testimony said;
        said.claim = Claim::kUnread;
        said.text =
            "its Flight Recorder tables are not read: gather the ranks' own files (TORCH_FR_DUMP_TEMP_FILE), or JSON";
        into.push_back(std::move(said));
    }
    RankPart part;
    bool partial = false;
    Lines lines(file.text);
    for (std::string_view line; lines.next(line) && into.size() < kMaxTestimonies;) {
        RankPart next;
        if (begins_rank(line, next)) {
            finish_rank(part, into);
            part = std::move(next);
            partial = false;
        } else if (line.starts_with("PARTIAL DATA: ")) {
            partial = true;
        } else if (std::string_view rest = line; partial && line.starts_with("  Rank ")) {
            rest.remove_prefix(7);
            const int32_t rank = take_rank(rest);
            if (rank >= 0 && rest.starts_with(": ")) {
                note_silence(rank, rest.substr(2), into);
            }
        } else if (part.said.rank >= 0 && line.starts_with("Error: ")) {
            note_silence(part.said.rank, "HTTP status " + std::string(line.substr(7, 16)), into);
            part = RankPart();
        } else if (part.said.rank >= 0) {
            read_stack_line(line, part);
        }
    }
    finish_rank(part, into);
}

}  // namespace titan::analyzer
