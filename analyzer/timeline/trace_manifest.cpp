#include "trace_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "host/file_bytes.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr size_t kHeadBytes = 1 << 20;  // what comes before the events is some kB, with eight GPUs

// The members before the events: they come last, and may take gigabytes.
std::optional<Json> head_of(std::string text) {
    const size_t events = text.find("\"traceEvents\"");
    if (events == std::string::npos) {
        return std::nullopt;
    }
    text.resize(events);
    const size_t end = text.find_last_not_of(", \t\r\n");
    text.resize(end == std::string::npos ? 0 : end + 1);
    return Json::parse(text + "}");
}

// The rank that the trace tells, else any rank of its host; of a run on one host any.
std::optional<uint32_t> process_of(const Run& run, const Json& head) {
    const auto rank = head.at("distributedInfo").at("rank").integer();
    const auto host = head.at("host_name").text();
    const std::set<std::string> hosts(run.hosts.begin(), run.hosts.end());
    const auto found = std::find_if(run.processes.begin(), run.processes.end(), [&](const Process& process) {
        return rank ? process.rank == *rank : host ? process.host == *host : hosts.size() == 1;
    });
    return found == run.processes.end() ? std::nullopt
                                        : std::optional(static_cast<uint32_t>(found - run.processes.begin()));
}

}  // namespace

Result<KinetoTrace> read_kineto(const Run& run, const std::string& path) {
    const Result<OpenFile> file = OpenFile::open(path);
    if (!file) {
        return file.error();
    }
    std::string text(std::min<uint64_t>(file->size_bytes(), kHeadBytes), '\0');
    text.resize(file->read_at(0, text.data(), text.size()));
    if (text.starts_with("\x1f\x8b")) {
        return Error("is compressed: unpack it first (gunzip)");
    }
    const std::optional<Json> head = head_of(std::move(text));
    if (!head) {
        return Error("is no trace of PyTorch's profiler");
    }
    const std::optional<uint32_t> process = process_of(run, *head);
    if (!process) {
        return Error("does not name its rank or host, or is not of this run");
    }
    return KinetoTrace{path, head->at("baseTimeNanoseconds").integer().value_or(0), *process};
}

// A clock is told by two readings at one moment, for which the middle of the record is best: clocks drift.
Json manifest_of(const Run& run, const Clocks& clocks, const std::string& timeline,
                 const std::vector<KinetoTrace>& traces) {
    Json files = Json::array();
    files.push_back({{"path", base_name(timeline)}});
    for (const KinetoTrace& trace : traces) {
        const Process& process = run.processes[trace.process];
        const int64_t middle_ns = process.started_ns + (process.now_ns - process.started_ns) / 2;
        const int64_t at_ns = std::max(middle_ns, trace.base_ns);
        Json is = {
            {"file", base_name(timeline)}, {"clock", "REALTIME"}, {"ts", clocks.common_ns(trace.process, at_ns)}};
        files.push_back({{"path", base_name(trace.path)},
                         {"machine", Json{{"name", process.host}}},
                         {"clocks", Json{{"ts", at_ns - trace.base_ns}, {"is", std::move(is)}}}});
    }
    Json trace_time = {{"clock", "REALTIME"}, {"file", base_name(timeline)}};
    Json root = Json::object();
    root["perfetto_manifest"] = {{"version", 1}, {"trace_time", std::move(trace_time)}, {"files", std::move(files)}};
    return root;
}

}  // namespace titan::analyzer
