#include "digests.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/clock.h"
#include "digest_fields.h"
#include "formats/container/digest_file.h"
#include "formats/container/packed.h"
#include "host/file_bytes.h"
#include "host/this_host.h"
#include "host/words.h"
#include "index_calls.h"
#include "load_files.h"

namespace titan::analyzer {

namespace files = std::filesystem;
using format::DigestSection;

Result<Digest> read_digest_file(const std::string& path) {
    const std::string label = printable(files::path(path).filename().string());
    const Result<OpenFile> file = OpenFile::open(path);
    if (!file) {
        return file.error().within(label);
    }
    Source source;
    source.path = path;
    source.label = label;
    return read_digest_bytes(source, *file->read_all());
}

Result<Digest> read_digest_bytes(const Source& source, std::span<const std::byte> bytes) {
    const std::string& label = source.label;
    Digest digest;
    size_t number = 0;
    const auto read = format::read_digest(bytes, [&](DigestSection kind, std::span<const std::byte> raw) {
        if (kind == DigestSection::kProblems) {
            unpack_problems(raw, digest.problems);
            return;
        }
        if (kind == DigestSection::kGroups) {
            unpack_groups(raw, digest.group_ranks);
            return;
        }
        ++number;
        Result<Process> process = unpack_process(raw);
        if (process) {
            process->source.path = source.path;
            process->source.is_digest = true;
            digest.processes.push_back(std::move(*process));
        } else {
            digest.problems.push_back(process.error().within(fmt::format("{}: process {}", label, number)).text() +
                                      "; skipped");
        }
    });
    if (!read) {
        return read.error().within(label);
    }
    for (const std::string& problem : *read) {
        digest.problems.push_back(label + ": " + problem + "; the intact parts are used");
    }
    return digest;
}

// --- sections other than processes

constexpr size_t kMaxProblems = 64;

std::vector<std::byte> pack_problems(std::vector<std::string> problems) {
    format::Packer packer;
    problems.resize(std::min(problems.size(), kMaxProblems));
    packer.count(problems.size(), 1);
    for (const std::string& problem : problems) {
        packer.text(problem);
    }
    return packer.bytes();
}

void unpack_problems(std::span<const std::byte> bytes, std::vector<std::string>& problems) {
    format::Unpacker unpacker(bytes);
    const size_t count = std::min(unpacker.count(0, 1), kMaxProblems);
    for (size_t i = 0; i < count && unpacker.good(); ++i) {
        std::string problem;
        unpacker.text(problem);
        problems.push_back(printable(problem));
    }
}

std::vector<std::byte> pack_groups(const DigestGroups& groups) {
    format::Packer packer;
    packer.count(groups.size(), 2);
    for (const auto& [id, ranks] : std::map(groups.begin(), groups.end())) {
        packer.number(id);
        packer.count(ranks.size(), 1);
        uint64_t before = 0;
        for (const int32_t rank : ranks) {
            packer.delta(rank, before);
        }
    }
    return packer.bytes();
}

void unpack_groups(std::span<const std::byte> bytes, DigestGroups& groups) {
    format::Unpacker unpacker(bytes);
    const size_t count = unpacker.count(0, 2);
    for (size_t i = 0; i < count && unpacker.good(); ++i) {
        uint64_t id = 0;
        unpacker.number(id);
        std::vector<int32_t> ranks(unpacker.count(0, 1));
        uint64_t before = 0;
        for (int32_t& rank : ranks) {
            unpacker.delta(rank, before);
        }
        if (unpacker.good()) {
            groups[id] = std::move(ranks);
        }
    }
}

// --- processes

namespace {

using format::Packer;
using format::Unpacker;

// Restores the fields of a kept entry that the history holds: they are not written twice.
void complete_entries(Process& p) {
    for (Entry& entry : p.entries) {
        const CallSignature& signature = p.history[entry.place];
        entry.count = signature.count;
        entry.row = signature.row;
        entry.graph = signature.graph;
        entry.thread = signature.thread;
        entry.site = signature.site;
        entry.shape = signature.words;
        entry.agreed = signature.agreed;
        entry.peer = signature.peer;
        entry.kind = signature.kind;
        entry.datatype = signature.datatype;
        entry.reduction = signature.reduction;
        entry.captured = signature.captured && entry.state != CallState::kFailed;
        entry.arguments_lost = signature.arguments_lost;
        entry.step = p.history.steps.at(entry.place);
        entry.replay = static_cast<uint32_t>(p.history.replays.at(entry.place));
    }
}

template <typename T, typename Fits>
bool all(const std::vector<T>& list, Fits&& fits) {
    return std::ranges::all_of(list, fits);
}

// The first index that leads nowhere, in words; empty if all are sound.
std::string unsound(const Process& p) {
    const auto row = [&](uint32_t index) { return index == kNoIndex || index < p.members.size(); };
    const auto work = [&](uint32_t index) { return index == kNoIndex || index < p.work.size(); };
    if (!all(p.history.signatures, [&](const CallSignature& signature) { return row(signature.row); })) {
        return "a call of a communicator that is missing";
    }
    if (!all(p.exchanges, [&](const Exchange& exchange) { return exchange.row < p.members.size(); })) {
        return "an exchange of a communicator that is missing";
    }
    if (!all(p.work, [&](const StreamWork& piece) { return work(piece.record); })) {
        return "an event wait whose record is missing";
    }
    const auto rises = [](const Entry& a, const Entry& b) { return a.place >= b.place; };
    if (std::ranges::adjacent_find(p.entries, rises) != p.entries.end()) {
        return "calls out of order";
    }
    if (!p.tickets.empty() && (p.tickets.size() != p.entries.size() ||
                               std::ranges::adjacent_find(p.tickets, std::greater_equal<>()) != p.tickets.end())) {
        return "tickets that fit no calls";
    }
    if (!all(p.steps, [&](const StepProfile& step) {
            return step.first_span <= p.step_spans.size() && step.span_count <= p.step_spans.size() - step.first_span;
        })) {
        return "a step whose spans are missing";
    }
    if (p.call_times.size() > p.history.size()) {
        return "times of calls that are missing";
    }
    if (!all(p.step_streams, [&](const StreamPiece& piece) {
            return row(piece.row) && piece.waits_for <= p.step_streams.size() && piece.and_for <= p.step_streams.size();
        })) {
        return "work of streams that waits for what is missing";
    }
    const auto falls = [](const Arrival& a, const Arrival& b) { return a.sequence > b.sequence; };
    if (!all(p.members, [&](const Member& member) {
            return std::ranges::adjacent_find(member.arrivals, falls) == member.arrivals.end();
        })) {
        return "arrivals out of order";
    }
    return p.texts.empty() || !p.texts.front().empty() ? "no texts" : "";
}

void bound_numbers(Process& p) {
    p.rank = plausible_rank(p.rank);
    p.world_size = plausible_rank(p.world_size);
    const auto bound = [](int64_t most_ns, auto&... times) { ((times = std::clamp<int64_t>(times, 0, most_ns)), ...); };
    const auto moments = [&](auto&... times) { bound(kLatestNs, times...); };
    const auto lengths = [&](auto&... times) { bound(kLatestNs >> 16, times...); };  // they are added up
    moments(p.call_times_from_ns, p.now_ns, p.started_ns, p.streams_seen.oldest_ns, p.source.written_ns,
            p.ending.seen_ns, p.ending.asked_ns, p.ending.left_ns, p.last_event.at_ns, p.last_error.at_ns,
            p.open_span.at_ns);
    for (ChildProcess& child : p.children) {
        moments(child.ended_ns);
    }
    for (MetricRecord& metric : p.metrics) {
        moments(metric.bad_since.at_ns);
    }
    for (HealthReading& reading : p.health) {
        moments(reading.since_ns, reading.at_ns);
        reading.value = plausible_reading(reading.value);
        reading.first_value = plausible_reading(reading.first_value);
    }
    for (int64_t& mark_ns : p.history.marks_ns) {
        moments(mark_ns);
    }
    for (Entry& entry : p.entries) {
        moments(entry.entered_ns, entry.returned_ns, entry.started_ns, entry.finished_ns);
    }
    for (StreamWork& work : p.work) {
        moments(work.entered_ns);
    }
    for (ThreadState& thread : p.threads) {
        moments(thread.entered_ns, thread.last_call_ns);
    }
    for (Member& member : p.members) {
        moments(member.created_ns, member.ready_ns, member.closed_ns);
        lengths(member.typical_ns);
        lengths(member.returning_ns);
        for (Arrival& arrival : member.arrivals) {
            moments(arrival.entered_ns, arrival.started_ns, arrival.ended_ns, arrival.waited_ns, arrival.held_ns);
        }
    }
    for (StepProfile& step : p.steps) {
        moments(step.begin_ns, step.end_ns);
        lengths(step.sync_ns, step.copy_ns, step.memory_ns, step.load_ns, step.nccl_ns, step.gap_ns);
    }
    for (SpanTime& span : p.step_spans) {
        lengths(span.busy_ns, span.ended_ns);
    }
}

void make_printable(Process& p) {
    for (std::string* text : {&p.source.label, &p.source.detail, &p.run, &p.host, &p.boot_id}) {
        *text = printable(*text);
    }
    for (std::vector<std::string>* list : {&p.texts, &p.unrecorded}) {
        for (std::string& text : *list) {
            text = printable(text);
        }
    }
}

}  // namespace

std::vector<std::byte> pack_process(const Process& process) {
    Process p = process;  // the one description of a process takes what it can read into
    Packer packer;
    digest::each_field<Packer>(p, [&](uint64_t tag, auto&& describe) { packer.field(tag, describe); });
    return packer.bytes();
}

Result<Process> unpack_process(std::span<const std::byte> bytes) {
    std::vector<std::pair<uint64_t, Unpacker>> found;
    Unpacker all_fields(bytes);
    uint64_t tag = 0;
    for (Unpacker content(bytes); all_fields.next_field(tag, content);) {
        found.emplace_back(tag, content);
    }
    Process p;
    std::string why = all_fields.good() ? "" : "cut off";
    digest::each_field<Unpacker>(p, [&](uint64_t wanted, auto&& describe) {
        const auto field =
            std::ranges::find_if(found, [&](const auto& candidate) { return candidate.first == wanted; });
        if (field == found.end() || !why.empty()) {
            return;
        }
        describe(field->second);
        if (!field->second.good()) {
            why = "field " + std::to_string(wanted) + " makes no sense";
        }
    });
    why = why.empty() ? unsound(p) : why;
    if (!why.empty()) {
        return Error(why + ": the file is damaged");
    }
    complete_entries(p);
    bound_numbers(p);
    make_printable(p);
    index_entries(p);
    return p;
}

// --- digests of a node

namespace {

namespace files = std::filesystem;
using format::DigestSection;

std::optional<Error> write_digest(const std::string& path, const std::vector<const Process*>& processes,
                                  const std::vector<std::string>& problems, const DigestGroups& groups,
                                  DigestResult& result) {
    format::DigestBuilder builder;
    const bool groups_fit = groups.empty() || builder.add(DigestSection::kGroups, pack_groups(groups));
    bool whole = problems.empty() || builder.add(DigestSection::kProblems, pack_problems(problems));
    for (const Process* process : processes) {
        whole &= builder.add(DigestSection::kProcess, pack_process(*process));
    }
    const std::vector<std::byte> file = builder.finish();
    if (!whole || !groups_fit) {
        return Error(path + ": a process does not fit into a digest");
    }
    std::error_code failed;
    files::create_directories(files::absolute(path).parent_path(), failed);
    if (const auto problem = write_private_file(path, file)) {
        return problem->within(path);
    }
    result.written.push_back(path);
    result.processes += processes.size();
    result.bytes += file.size();
    return std::nullopt;
}

// Host and the boot that it runs in: two machines may both be called localhost.
std::string name_of_node(const Process& process) {
    return fmt::format("{}-{}.digest", safe_file_name(process.host.empty() ? "host" : process.host),
                       safe_file_name(process.boot_id.empty() ? "boot" : process.boot_id.substr(0, 8)));
}

}  // namespace

Result<DigestResult> write_digests(const DigestOptions& options) {
    LoadOptions load = options.load;
    load.only_host = options.only_this_node ? this_host() : std::string();
    const Result<LoadedProcesses> loaded = load_processes(load);
    if (!loaded) {
        return loaded.error();
    }
    DigestResult result;
    result.problems = loaded->problems;
    using Node = std::tuple<std::string, int32_t, std::string>;
    std::map<Node, std::vector<const Process*>> of_node;
    for (const Process& process : loaded->processes) {
        const Node node = options.file.empty() ? Node(process.run, process.attempt, name_of_node(process)) : Node();
        of_node[node].push_back(&process);
    }
    // An unreadable file belongs to no node: it is reported once.
    std::vector<std::string> problems = loaded->problems;
    for (auto& [key, processes] : of_node) {
        const auto& [run, attempt, node] = key;
        const std::string path =
            !options.file.empty()
                ? options.file
                : fmt::format("{}/{}/{}/{}", options.into, safe_file_name(run.empty() ? "run" : run), attempt, node);
        if (auto problem = write_digest(path, processes, problems, loaded->group_ranks, result)) {
            return *problem;
        }
        problems.clear();
    }
    return result;
}

}  // namespace titan::analyzer
