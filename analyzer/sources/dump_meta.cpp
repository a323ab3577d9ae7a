#include "dump_meta.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "host/json_value.h"
#include "host/words.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostTexts = 512;  // of one object

uint64_t unsigned_at(const Json& object, const char* key) { return object.at(key).natural().value_or(0); }

std::string text_at(const Json& object, const char* key) { return printable(object.at(key).text().value_or("")); }

// A load average or a quota: hundredths of a processor.
uint32_t cent_at(const Json& object, const char* key) {
    const double value = object.at(key).number().value_or(0);
    return value > 0 && value < 1e6 ? static_cast<uint32_t>(std::lround(value * 100)) : 0;
}

Processors processors_at(const Json& object) {
    constexpr uint64_t kMostProcessors = 1 << 20;
    const auto count = [&](const char* key) {
        return static_cast<uint32_t>(std::min(unsigned_at(object, key), kMostProcessors));
    };
    Processors processors;
    processors.online = count("online");
    processors.allowed = count("allowed");
    processors.quota_cent = cent_at(object, "quota");
    processors.load_cent[0] = cent_at(object, "load_1min");
    processors.load_cent[1] = cent_at(object, "load_5min");
    processors.load_cent[2] = cent_at(object, "load_15min");
    processors.threads = count("threads");
    processors.run_ns = unsigned_at(object, "run_ns");
    processors.run_delay_ns = unsigned_at(object, "run_delay_ns");
    return processors;
}

std::vector<std::pair<std::string, std::string>> texts_of(const Json& object) {
    std::vector<std::pair<std::string, std::string>> texts;
    for (size_t i = 0; object.is_object() && i < std::min(object.keys().size(), kMostTexts); ++i) {
        texts.emplace_back(printable(object.keys()[i]), printable(object.items()[i].text().value_or("")));
    }
    return texts;
}

void add_frames(const Json& list, std::vector<std::string>& frames) {
    constexpr size_t kMostFrames = 64;
    for (const Json& frame : list.items()) {
        const std::string file = text_at(frame, "file");
        const std::string function = text_at(frame, "function");
        if (function.empty() || frames.size() == kMostFrames) {
            continue;
        }
        const uint64_t line = unsigned_at(frame, "line");
        frames.push_back(
            fmt::format("{} at {}{}", function, base_name(file), line == 0 ? std::string() : fmt::format(":{}", line)));
    }
}

void add_children(const Json& list, DumpMeta& meta) {
    constexpr size_t kMostChildren = 256;
    for (const Json& item : list.items()) {
        const uint64_t pid = unsigned_at(item, "pid");
        if (pid == 0 || pid > INT32_MAX || meta.children.size() == kMostChildren) {
            continue;
        }
        DumpedChild& child = meta.children.emplace_back();
        child.pid = static_cast<int32_t>(pid);
        child.name = text_at(item, "name");
        child.state = (text_at(item, "state") + "?").front();
        child.wait_channel = text_at(item, "wait_channel");
        child.cpu_ns = unsigned_at(item, "cpu_ns");
        child.ended_ns = static_cast<int64_t>(std::min<uint64_t>(unsigned_at(item, "ended_realtime_ns"), INT64_MAX));
        const std::optional<uint64_t> status = item.at("wait_status").natural();
        child.wait_status = status && *status <= UINT16_MAX ? static_cast<int32_t>(*status) : -1;
        add_frames(item.at("stack"), child.frames);
    }
}

}  // namespace

std::optional<DumpMeta> parse_dump_meta(const std::string& text) {
    // Nothing of it lies deeper than the frames of children: deeper values of a hostile one are never kept.
    const std::optional<Json> parsed = Json::parse(text, 5);
    if (!parsed || !parsed->is_object()) {
        return std::nullopt;
    }
    const Json& object = *parsed;
    DumpMeta meta;
    meta.dump_number = unsigned_at(object, "dump");
    meta.reason = reason_named(object.at("reason").text().value_or(""));
    meta.detail = text_at(object, "detail");
    meta.realtime_ns = unsigned_at(object, "realtime_ns");
    meta.ticks = unsigned_at(object, "ticks");
    meta.process_alive = object.at("process_alive").boolean().value_or(true);
    meta.halt = halt_named(text_at(object, "halt"));
    meta.processors = processors_at(object.at("processors"));
    const Json& environment = object.at("environment");
    meta.environment = texts_of(environment);
    meta.machine = texts_of(object.at("machine"));
    add_children(object.at("children"), meta);
    add_children(object.at("ended_children"), meta);
    meta.out_of_memory_kills = unsigned_at(object, "out_of_memory_kills");
    meta.partial_recording = !text_at(environment, "TITANTRACE_RANKS").empty();
    const std::string launches = text_at(environment, "TITANTRACE_LAUNCHES");
    char* end = nullptr;
    const uint64_t sample = std::strtoull(launches.c_str(), &end, 10);
    meta.launch_sample = launches.empty() || *end != '\0' ? 1 : sample;
    return meta;
}

}  // namespace titan::analyzer
