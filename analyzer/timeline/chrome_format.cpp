#include "chrome_format.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "host/json_value.h"

namespace titan::analyzer {
namespace {

std::string quoted(std::string_view text) { return Json(std::string(text)).dump(); }

std::string value_text(const TraceArgument& argument) {
    if (const auto* text = std::get_if<std::string_view>(&argument.value)) {
        return quoted(*text);
    }
    const auto* whole = std::get_if<int64_t>(&argument.value);
    return whole != nullptr ? fmt::format("{}", *whole) : number_or_word(std::get<double>(argument.value)).dump();
}

}  // namespace

ChromeFormat::ChromeFormat(Write write) : write_(std::move(write)) { write_("{\"traceEvents\":["); }

void ChromeFormat::process(uint64_t id, std::string_view name) {
    write_(
        fmt::format("{}\n{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":{}}}}}"
                    ",\n{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{},\"args\":{{\"sort_index\":{}}}}}",
                    std::exchange(any_, true) ? "," : "", id, quoted(name), id, id));
}

// Counters have no threads: their track is their name.
void ChromeFormat::track(const TraceTrack& track) {
    if (track.counter) {
        return;
    }
    write_(fmt::format(
        ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{0},\"tid\":{1},\"args\":{{\"name\":{2}}}}}"
        ",\n{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{0},\"tid\":{1},\"args\":{{\"sort_index\":{3}}}}}",
        track.process, track.id, quoted(track.name), track.order));
}

void ChromeFormat::encode(const TraceDetails& details, std::string& into) {
    const auto out = std::back_inserter(into);
    fmt::format_to(out, ",\"name\":{}", quoted(details.name));
    if (details.flow != 0) {
        fmt::format_to(out, ",\"bind_id\":\"{:#x}\",\"flow_in\":true,\"flow_out\":true", details.flow);
    }
    into += ",\"args\":{";
    for (const TraceArgument& argument : details.arguments) {
        into += &argument == details.arguments.data() ? "" : ",";
        into += quoted(argument.name) + ":" + value_text(argument);
    }
    into += "}";
}

void ChromeFormat::begin(const TraceTrack& track, int64_t at_ns, std::string_view encoded) {
    event('B', track, at_ns, encoded);
}

void ChromeFormat::end(const TraceTrack& track, int64_t at_ns) { event('E', track, at_ns, {}); }

void ChromeFormat::instant(const TraceTrack& track, int64_t at_ns, std::string_view encoded) {
    event('i', track, at_ns, encoded);
}

void ChromeFormat::value(const TraceTrack& track, int64_t at_ns, double value) {
    event('C', track, at_ns,
          fmt::format(",\"name\":{},\"args\":{{\"value\":{}}}", quoted(track.name), number_or_word(value).dump()));
}

void ChromeFormat::event(char phase, const TraceTrack& track, int64_t at_ns, std::string_view rest) {
    line_.clear();
    fmt::format_to(std::back_inserter(line_), ",\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{}.{:03}{}}}", phase,
                   track.process, track.id, at_ns / 1000, at_ns % 1000, rest);
    write_(line_);
}

void ChromeFormat::finish() { write_("\n],\"displayTimeUnit\":\"ms\"}\n"); }

}  // namespace titan::analyzer
