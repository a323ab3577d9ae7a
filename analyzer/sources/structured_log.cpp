#include "structured_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/hash.h"
#include "formats/layout/ring_layout.h"
#include "formats/ring/journal_image.h"
#include "host/file_bytes.h"
#include "host/json_value.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

using format::MarkerEntry;
using format::MarkerKind;

constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kMostLineBytes = 1 << 20;  // more is damage
constexpr size_t kEndBytes = 1 << 16;       // in which the last line is looked for
constexpr size_t kMostMarkers = 4096;       // of a part
constexpr size_t kMostOpen = 100'000;

// Calls visit(line, number, is_cut) for each line, numbered from 1; is_cut: no newline ends it. Stops where that is
// false.
template <typename Visit>
void for_each_line(const LogBytes& file, const Visit& visit) {
    std::string held;
    std::vector<char> bytes(kReadBytes);
    uint64_t number = 0;
    for (uint64_t offset = 0;;) {
        const size_t size = file.read_at(offset, bytes.data(), bytes.size());
        offset += size;
        std::string_view rest(bytes.data(), size);
        for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
            held += rest.substr(0, end);
            rest.remove_prefix(end + 1);
            if (!visit(std::string_view(held), ++number, false)) {
                return;
            }
            held.clear();
        }
        if (held.size() < kMostLineBytes) {
            held += rest;  // of a longer line the rest is left out
        }
        if (size == 0) {
            if (!held.empty()) {
                visit(std::string_view(held), ++number, true);
            }
            return;
        }
    }
}

template <size_t N>
void set_text(char (&field)[N], const std::string& text) {
    std::copy_n(text.data(), std::min(text.size(), N - 1), field);
}

// Ticks are nanoseconds since 1970.
format::RingHeader header_of(const StructuredLog& log) {
    format::RingHeader header{};
    header.magic = format::kRingMagic;
    header.major = format::kRingMajor;
    header.minor = format::kRingMinor;
    header.endian_tag = format::kEndianTag;
    header.header_bytes = format::kHeaderBytes;
    header.pid = log.pid;
    header.rank = log.rank;
    header.world_size = -1;
    header.local_rank = log.local_rank;
    set_text(header.host, log.host);
    header.clock_source = format::ClockSource::kMonotonic;
    header.ticks_per_second = 1'000'000'000;
    const auto first = static_cast<uint64_t>(log.first_ns);
    header.first_anchor = {0, first, first, first};
    header.heartbeat_ticks = static_cast<uint64_t>(log.last_ns);
    header.step = format::kNoStep;
    header.state = format::ProcessState::kRunning;
    return header;
}

class LogReader {
  public:
    LogReader(const StructuredLog& log, const VisitLog& visit) : visit_(visit) { block_.header = header_of(log); }

    void take(std::string_view text, uint64_t number, bool is_cut) {
        std::optional<LogLine> line;
        if (text.size() < kMostLineBytes) {
            line = parse_log_line(text);
        }
        if (!line) {
            if (text.find_first_not_of(" \t\r") != std::string_view::npos) {
                note_lost(number, is_cut);
            }
            return;
        }
        begin_step(*line);
        switch (line->kind) {
            case LogKind::kSpanBegin: begin_span(*line); break;
            case LogKind::kSpanEnd: end_span(*line); break;
            case LogKind::kError: add_error(*line); break;
            case LogKind::kEvent: add_event(*line); break;
            case LogKind::kMetric: add_metric(*line); break;
        }
        if (block_.markers.size() >= kMostMarkers) {
            flush();
        }
    }

    void flush() {
        if (block_.markers.empty()) {
            return;
        }
        for (size_t i = 0; i < block_.markers.size(); ++i) {
            block_.markers[i].slot_sequence = 2 * (block_.first_ticket + i) + 2;
        }
        if (const Result<format::RingImage> image = format::image_of(block_, memory_)) {
            visit_(*image);
        }
        block_.first_ticket += block_.markers.size();
        block_.markers.clear();
        block_.texts.clear();
        block_.sites.clear();
        texts_.clear();
        sites_.clear();
    }

    // In words; empty: nothing is.
    std::string lost() const {
        std::string text;
        const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
        if (lost_lines_ != 0) {
            add(fmt::format("{} {} not of the structured logger (line {} is the first), left out",
                            many_counted(lost_lines_, "line"), verb_form(lost_lines_, "is", "are"), first_lost_));
        }
        if (is_cut_) {
            add("its last line is cut off");
        }
        if (ends_alone_ != 0) {
            add(fmt::format("{} without a begin and a duration left out", many_counted(ends_alone_, "span end")));
        }
        return text;
    }

  private:
    // The open spans of a thread, or of one of its asyncio tasks.
    struct Flow {
        std::vector<uint32_t> open;  // span ids, outermost first
    };
    using FlowKey = std::pair<uint32_t, uint64_t>;  // thread, task
    struct OpenSpan {
        std::string name;
        int64_t begin_ns;
    };

    void note_lost(uint64_t number, bool is_cut) {
        if (is_cut) {
            is_cut_ = true;
            return;
        }
        first_lost_ = lost_lines_ == 0 ? number : first_lost_;
        ++lost_lines_;
    }

    // Steps only rise: tasks that look back at earlier ones begin none.
    void begin_step(const LogLine& line) {
        if (line.step && *line.step > step_) {
            step_ = *line.step;
            tags_.clear();
            MarkerEntry& marker = add(MarkerKind::kStep, line);
            marker.value = static_cast<uint64_t>(step_);
            marker.detail = line.relative_step ? 1 : 0;
            marker.extra = static_cast<uint64_t>(line.relative_step.value_or(0));
        }
        for (const std::string& tag : line.tags) {
            if (line.step == step_ && tags_.insert(tag).second) {
                add(MarkerKind::kStepTag, line).name = text(tag);
            }
        }
    }

    MarkerEntry& add(MarkerKind kind, const LogLine& line) {
        MarkerEntry& marker = block_.markers.emplace_back();
        marker.ticks = static_cast<uint64_t>(line.at_ns);
        marker.step = line.step.value_or(-1);
        marker.thread = line.thread;
        marker.kind = kind;
        return marker;
    }

    uint32_t text(const std::string& words) {
        const auto [known, is_new] = texts_.try_emplace(words, static_cast<uint32_t>(block_.texts.size() + 1));
        if (is_new) {
            block_.texts.push_back(words);
        }
        return known->second;
    }

    uint32_t site(const std::string& place) {
        if (place.empty()) {
            return 0;
        }
        const auto [known, is_new] = sites_.try_emplace(place, static_cast<uint32_t>(block_.sites.size() + 1));
        if (is_new) {
            block_.sites.push_back({format::kToldSite | fnv1a64(place.data(), place.size()), text(place), 0});
        }
        return known->second;
    }

    // A number that only it has. Rollouts have a task each: a table of their names would grow with the file.
    static uint64_t task(const LogLine& line) {
        return line.task.empty() ? 0 : fnv1a64(line.task.data(), line.task.size()) | 1;
    }

    Flow& flow_of(const LogLine& line) { return flows_[{line.thread, task(line)}]; }

    void begin_span(const LogLine& line) {
        if (open_.size() >= kMostOpen) {
            ++ends_alone_;
            return;
        }
        Flow& flow = flow_of(line);
        const uint32_t id = ++newest_span_;
        MarkerEntry& marker = add(MarkerKind::kSpanBegin, line);
        marker.name = text(line.name);
        marker.value = flow.open.empty() ? 0 : flow.open.back();
        marker.depth = static_cast<uint8_t>(std::min<size_t>(flow.open.size(), UINT8_MAX));
        marker.span = id;
        marker.extra = task(line);
        marker.site = site(line.place);
        if (flow.open.empty() && is_given_name(line.task)) {
            add_task_name(line, id);
        }
        flow.open.push_back(id);
        open_.emplace(id, OpenSpan{line.name, line.at_ns});
    }

    // asyncio calls a task that the program gives no name "Task-" and its number.
    static bool is_given_name(std::string_view task) {
        constexpr std::string_view kOfAsyncio = "Task-";
        const bool is_of_asyncio = task.starts_with(kOfAsyncio) &&
                                   task.find_first_not_of("0123456789", kOfAsyncio.size()) == std::string_view::npos;
        return !task.empty() && !is_of_asyncio;
    }

    // As python/titantrace/spans.py does, on a span that is in no other span of the task.
    void add_task_name(const LogLine& line, uint32_t span) {
        MarkerEntry& marker = add(MarkerKind::kAttribute, line);
        marker.name = text("task_name");
        marker.detail = static_cast<uint8_t>(format::AttributeType::kText);
        marker.text = text(line.task);
        marker.span = span;
    }

    // The innermost of that name; open_.end(): there is none.
    std::unordered_map<uint32_t, OpenSpan>::iterator find_open(const Flow& flow, const std::string& name) {
        for (auto id = flow.open.rbegin(); id != flow.open.rend(); ++id) {
            if (const auto span = open_.find(*id); span != open_.end() && span->second.name == name) {
                return span;
            }
        }
        return open_.end();
    }

    // If the begin was lost, the end's duration gives it.
    void end_span(const LogLine& line) {
        Flow& flow = flow_of(line);
        const auto open = find_open(flow, line.name);
        if (open == open_.end() && !line.value) {
            ++ends_alone_;
            return;
        }
        MarkerEntry& marker = add(MarkerKind::kSpanEnd, line);
        marker.name = text(line.name);
        marker.extra = task(line);
        if (open != open_.end()) {
            marker.span = open->first;
            marker.value = static_cast<uint64_t>(open->second.begin_ns);
            flow.open.erase(std::find(flow.open.begin(), flow.open.end(), open->first));
            open_.erase(open);
        } else {
            marker.span = ++newest_span_;
            marker.value = static_cast<uint64_t>(std::max<int64_t>(line.at_ns - static_cast<int64_t>(*line.value), 1));
        }
        marker.depth = static_cast<uint8_t>(std::min<size_t>(flow.open.size(), UINT8_MAX));
        if (flow.open.empty()) {
            flows_.erase({line.thread, task(line)});
        }
    }

    void add_error(const LogLine& line) {
        const auto open = find_open(flow_of(line), line.name);
        MarkerEntry& marker = add(MarkerKind::kError, line);
        marker.name = text(line.name);
        marker.text = text(line.message);
        marker.span = open == open_.end() ? 0 : open->first;
        marker.site = site(line.place);
    }

    void add_event(const LogLine& line) {
        MarkerEntry& marker = add(MarkerKind::kEvent, line);
        marker.name = text(line.name);
        marker.span = ++newest_span_;
        marker.extra = task(line);
        marker.site = site(line.place);
    }

    void add_metric(const LogLine& line) {
        MarkerEntry& marker = add(MarkerKind::kMetric, line);
        marker.name = text(line.name);
        marker.value = std::bit_cast<uint64_t>(line.value.value_or(std::nan("")));
        marker.extra = std::bit_cast<uint64_t>(1.0);  // its weight
        marker.site = site(line.place);
    }

    const VisitLog& visit_;
    format::MarkerBlock block_;
    std::vector<std::byte> memory_;
    std::unordered_map<std::string, uint32_t> texts_, sites_;  // of the block
    std::map<FlowKey, Flow> flows_;
    std::unordered_map<uint32_t, OpenSpan> open_;  // by id
    std::set<std::string> tags_;                   // of the step
    int64_t step_ = -1;
    uint32_t newest_span_ = 0;
    uint64_t lost_lines_ = 0, first_lost_ = 0, ends_alone_ = 0;
    bool is_cut_ = false;
};

// The last line that is whole, in the end of the file.
int64_t last_ns_of(const LogBytes& file) {
    std::string end(kEndBytes, '\0');
    const uint64_t from = file.size_bytes - std::min<uint64_t>(file.size_bytes, kEndBytes);
    end.resize(file.read_at(from, end.data(), end.size()));
    int64_t last_ns = 0;
    for (size_t begin = 0; begin < end.size();) {
        const size_t newline = std::min(end.find('\n', begin), end.size());
        if (const auto line = parse_log_line(std::string_view(end).substr(begin, newline - begin))) {
            last_ns = std::max(last_ns, line->at_ns);
        }
        begin = newline + 1;
    }
    return last_ns;
}

LogBytes bytes_of(const OpenFile& file) {
    return {[&file](uint64_t offset_bytes, void* into, size_t size_bytes) {
                return file.read_at(offset_bytes, into, size_bytes);
            },
            file.size_bytes()};
}

}  // namespace

Result<StructuredLog> open_structured_log(const LogBytes& bytes) {
    constexpr uint64_t kMostLines = 10'000;  // before the first of the logger
    StructuredLog log;
    for_each_line(bytes, [&](std::string_view text, uint64_t number, bool) {
        if (const auto line = parse_log_line(text)) {
            log.source = line->source;
            log.host = line->host;
            log.rank = line->rank;
            log.local_rank = line->local_rank;
            log.pid = line->pid;
            log.first_ns = line->at_ns;
        }
        return log.first_ns == 0 && number < kMostLines;
    });
    if (log.first_ns == 0) {
        return Error("no line of torchtitan's structured logger is in it");
    }
    log.last_ns = std::max(log.first_ns, last_ns_of(bytes));
    return log;
}

Result<StructuredLog> open_structured_log(const std::string& path) {
    const Result<OpenFile> file = OpenFile::open(path);
    Result<StructuredLog> log = file ? open_structured_log(bytes_of(*file)) : file.error();
    if (log) {
        log->path = path;
    }
    return log;
}

Result<format::RingImage> header_image(const StructuredLog& log, std::vector<std::byte>& memory) {
    format::MarkerBlock block;
    block.header = header_of(log);
    return format::image_of(block, memory);
}

std::string visit_structured_log(const StructuredLog& log, const LogBytes& bytes, const VisitLog& visit) {
    LogReader reader(log, visit);
    for_each_line(bytes, [&](std::string_view text, uint64_t number, bool is_cut) {
        reader.take(text, number, is_cut);
        return true;
    });
    reader.flush();
    return reader.lost();
}

Result<std::string> visit_structured_log(const StructuredLog& log, const VisitLog& visit) {
    const Result<OpenFile> file = OpenFile::open(log.path);
    return file ? Result<std::string>(visit_structured_log(log, bytes_of(*file), visit)) : file.error();
}

// --- one line of the log

namespace {

constexpr size_t kDepth = 4;  // lists of tags; nothing that we read lies deeper

struct Word {
    std::string_view of_python;
    std::string_view of_json;
};
constexpr auto kWords = std::to_array<Word>({
    {"-Infinity", "\"-inf\""},
    {"Infinity", "\"inf\""},
    {"NaN", "\"nan\""},
});

// Outside of texts; whether the rest is JSON is not asked here.
std::string with_json_words(std::string_view line) {
    std::string result;
    bool in_text = false;
    for (size_t i = 0; i < line.size();) {
        if (in_text && line[i] == '\\') {
            result += line.substr(i, 2);
            i += 2;
            continue;
        }
        in_text ^= line[i] == '"';
        const auto* word = std::find_if(kWords.begin(), kWords.end(), [&](const Word& one) {
            return !in_text && line.substr(i).starts_with(one.of_python);
        });
        if (word == kWords.end()) {
            result += line[i++];
        } else {
            result += word->of_json;
            i += word->of_python.size();
        }
    }
    return result;
}

std::optional<Json> parse(std::string_view line) {
    const bool has_word = line.find("NaN") != std::string_view::npos || line.find("Infinity") != std::string_view::npos;
    return has_word ? Json::parse(with_json_words(line), kDepth) : Json::parse(line, kDepth);
}

std::string text_of(const Json& json, std::string_view key) {
    return printable(json.at(key).text().value_or(std::string_view()));
}

// Null stands for NaN where a writer keeps to JSON.
std::optional<double> value_of(const Json& json) {
    if (const auto number = json.number()) {
        return number;
    }
    const auto text = json.text();
    const double infinity = std::numeric_limits<double>::infinity();
    return text && *text == "inf"    ? std::optional(infinity)
           : text && *text == "-inf" ? std::optional(-infinity)
                                     : std::optional(std::numeric_limits<double>::quiet_NaN());
}

int32_t number_of(const Json& json, std::string_view key, int32_t unknown) {
    const auto number = json.at(key).integer();
    return number && *number >= 0 && *number <= std::numeric_limits<int32_t>::max() ? static_cast<int32_t>(*number)
                                                                                    : unknown;
}

std::optional<int64_t> step_of(const Json& json, std::string_view key) {
    const auto step = json.at(key).integer();
    return step && *step >= 0 && *step <= std::numeric_limits<int32_t>::max() ? step : std::nullopt;
}

// "trainer.py:40:train" -> "trainer.py:40 train", without directories.
std::string place_of(const std::string& caller) {
    std::string place(base_name(caller));
    if (const size_t colon = place.rfind(':'); colon != std::string::npos) {
        place[colon] = ' ';
    }
    return place;
}

bool take_suffix(std::string& name, std::string_view suffix) {
    if (name.size() <= suffix.size() || !name.ends_with(suffix)) {
        return false;
    }
    name.resize(name.size() - suffix.size());
    return true;
}

// The message of an error is "[step 3] NAME_error: ValueError: ...".
std::string error_text(const std::string& message, const std::string& name) {
    const std::string before = name + "_error: ";
    const size_t begin = message.find(before);
    return begin == std::string::npos ? message : message.substr(begin + before.size());
}

// What it says; false: nothing that we know.
bool set_kind(const Json& json, LogLine& line) {
    constexpr double kMostMs = 1e12;
    line.name = text_of(json, "log_type_name");
    const std::string_view type = json.at("log_type").text().value_or(std::string_view());
    if (type == "instant" && line.name == "metric_value") {
        line.kind = LogKind::kMetric;
        line.name = text_of(json, "event_name");
        line.value = value_of(json.at("value"));
    } else if (type == "instant") {
        line.kind = LogKind::kEvent;
    } else if (type != "event") {
        return false;
    } else if (take_suffix(line.name, "_start")) {
        line.kind = LogKind::kSpanBegin;
    } else if (take_suffix(line.name, "_end")) {
        line.kind = LogKind::kSpanEnd;
        const auto took_ms = json.at("value").number();
        if (took_ms && *took_ms >= 0 && *took_ms < kMostMs) {
            line.value = *took_ms * 1e6;
        }
    } else if (take_suffix(line.name, "_error")) {
        line.kind = LogKind::kError;
        line.message = error_text(text_of(json, "message"), line.name);
    } else {
        return false;
    }
    return !line.name.empty();
}

}  // namespace

std::optional<LogLine> parse_log_line(std::string_view text) {
    const std::optional<Json> json = parse(text);
    if (!json || !json->is_object()) {
        return std::nullopt;
    }
    LogLine line;
    const auto at_us = json->at("time_us").integer();
    if (!at_us || *at_us <= 0 || *at_us >= kLatestNs / 1000 || !set_kind(*json, line)) {
        return std::nullopt;
    }
    line.at_ns = *at_us * 1000;
    line.task = text_of(*json, "task_name");
    line.place = place_of(text_of(*json, "caller"));
    line.thread = static_cast<uint32_t>(number_of(*json, "tid", 0));
    line.step = step_of(*json, "step");
    line.relative_step = step_of(*json, "relative_step");
    for (const Json& tag : json->at("step_tags").items()) {
        if (const auto name = tag.text()) {
            line.tags.push_back(printable(*name));
        }
    }
    line.source = text_of(*json, "source");
    line.host = text_of(*json, "host_name");
    line.rank = format::plausible_rank(number_of(*json, "global_rank", number_of(*json, "rank", -1)));
    line.local_rank = number_of(*json, "local_rank", -1);
    line.pid = number_of(*json, "pid", 0);
    return line;
}

bool looks_like_structured_log(std::string_view first_bytes) {
    return first_bytes.starts_with('{') && first_bytes.find("\"log_type_name\"") != std::string_view::npos &&
           first_bytes.find("\"time_us\"") != std::string_view::npos;
}

}  // namespace titan::analyzer
