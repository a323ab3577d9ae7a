#include "log_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "formats/layout/ring_layout.h"
#include "host/json_value.h"
#include "host/words.h"

namespace titan::analyzer {
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
