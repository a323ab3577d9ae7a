#include "tracebacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "function_name.h"
#include "readers.h"

namespace titan::analyzer {
namespace {

constexpr std::string_view kBegins = "Traceback (most recent call last):";
constexpr size_t kMostTracebacks = 512;
constexpr size_t kMostMessageBytes = 400;

// '  File "/job/train.py", line 7, in main'
struct Frame {
    std::string file;
    int32_t line = 0;
    std::string function;

    std::string text() const {
        return fmt::format("{}:{} in {}", std::filesystem::path(file).filename().string(), line, function);
    }
};

std::optional<Frame> frame_in(std::string_view line) {
    line = without_spaces(line);
    if (!line.starts_with("File \"")) {
        return std::nullopt;
    }
    line.remove_prefix(6);
    const auto file = take_until(line, "\", line ");
    const auto number = file ? take_number(line) : std::nullopt;
    if (!number || !line.starts_with(", in ")) {
        return std::nullopt;
    }
    return Frame{std::string(*file), *number, std::string(line.substr(5))};
}

// The innermost frame of the program, else of all.
struct Innermost {
    std::string own, any;

    void add(const Frame& frame) {
        any = frame.text();
        own = is_framework_file(frame.file) ? own : any;
    }
    const std::string& place() const { return own.empty() ? any : own; }
};

struct Speaker {
    int32_t rank = -1;
    int32_t local_rank = -1;
    auto key() const { return std::pair(rank, local_rank); }
};

// Cuts "[rank1]: " and "[default1]:" off.
Speaker take_speaker(std::string_view& line) {
    Speaker speaker;
    while (line.starts_with("[")) {
        std::string_view rest = line.substr(1);
        const auto name = take_until(rest, "]:");
        const size_t digits = name ? name->find_first_of("0123456789") : std::string_view::npos;
        if (digits == std::string_view::npos || digits == 0 ||
            name->find_first_not_of("0123456789", digits) != std::string_view::npos) {
            break;
        }
        std::string_view number = name->substr(digits);
        const bool is_rank = name->substr(0, digits) == "rank";
        (is_rank ? speaker.rank : speaker.local_rank) = take_rank(number);
        line = rest.starts_with(" ") && is_rank ? rest.substr(1) : rest;
    }
    return speaker;
}

bool is_of_torchrun(std::string_view message) {
    return has(message, "ChildFailedError") || has(message, "SignalException");
}

// "RuntimeError: boom", "torch.OutOfMemoryError: ...", "KeyboardInterrupt"; others write into the same log.
bool is_exception(std::string_view line) {
    const size_t end = std::min(
        line.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_."), line.size());
    return end > 0 && (end == line.size() || line[end] == ':');
}

bool follows_from_another(std::string_view line) {
    return line.starts_with("During handling of the above exception") ||
           line.starts_with("The above exception was the direct cause");
}

// What one speaker has written so far.
struct Reading {
    bool inside = false;
    bool follows = false;
    Innermost innermost;
    std::vector<Traceback> done;

    void read(std::string_view line, const Speaker& speaker) {
        if (line.starts_with(kBegins)) {
            inside = true;
            innermost = {};
        } else if (inside && is_exception(line)) {
            inside = false;
            if (follows && !done.empty()) {
                done.pop_back();
            }
            follows = false;
            if (!is_of_torchrun(line)) {
                done.push_back({speaker.rank, speaker.local_rank, std::string(line.substr(0, kMostMessageBytes)),
                                innermost.place()});
            }
        } else if (inside) {
            const auto frame = frame_in(line);
            if (frame) {
                innermost.add(*frame);
            }
        } else {
            follows = follows || follows_from_another(line);
        }
    }
};

}  // namespace

std::string place_in_traceback(std::string_view traceback) {
    Innermost innermost;
    Lines lines(traceback);
    for (std::string_view line; lines.next(line);) {
        if (const auto frame = frame_in(line)) {
            innermost.add(*frame);
        }
    }
    return innermost.place();
}

std::vector<Traceback> tracebacks_in(std::string_view text) {
    std::map<std::pair<int32_t, int32_t>, Reading> readings;
    size_t count = 0;
    Lines lines(text);
    for (std::string_view line; lines.next(line) && count < kMostTracebacks;) {
        const Speaker speaker = take_speaker(line);
        count += line.starts_with(kBegins) ? 1 : 0;
        if (line.starts_with(kBegins) || readings.contains(speaker.key())) {
            readings[speaker.key()].read(line, speaker);
        }
    }
    std::vector<Traceback> all;
    for (auto& [speaker, reading] : readings) {
        std::move(reading.done.begin(), reading.done.end(), std::back_inserter(all));
    }
    return all;
}

}  // namespace titan::analyzer
