#include "top/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "decode_process.h"
#include "diagnose.h"
#include "formats/ring/ring_image.h"
#include "health_of.h"
#include "host/image_buffer.h"
#include "host/mapped.h"
#include "host/node_rings.h"
#include "host/result.h"
#include "host/words.h"
#include "host_calls.h"
#include "host_threads.h"
#include "link_run.h"
#include "load_run.h"
#include "node/processes.h"
#include "rank_state.h"
#include "report.h"
#include "rings.h"
#include "run.h"
#include "run_text.h"
#include "wait_graph.h"

namespace titan::tools {
namespace {

// --- The newest part of a living ring, in the analyzer's form of a process. A ring has megabytes, nearly all of them
// history: a rank's current state is read in a few pieces, with pread and nothing else, so that nobody notices.

constexpr uint64_t kNewestCalls = 1024;  // per ring

constexpr uint64_t kNewestMarkers = 512;

struct RankView {
    analyzer::Process process;
    double steps_per_s = -1;  // measured over the last seconds, 0 when steps stopped coming; -1 unknown
    int64_t step_age_ns = 0;  // since the newest step began, 0 unknown
    size_t read_bytes = 0;
};

using format::RegionDescriptor;
using format::RegionKind;
using format::RingHeader;

constexpr int64_t kRateWindowNs = 10'000'000'000;

// Reads pieces of the file to their places in an image that is zero elsewhere.
class Reader {
  public:
    Reader(const OwnedFile& file, ImageBuffer& memory) : file_(file), memory_(memory) {}

    bool piece(uint64_t offset_bytes, uint64_t size_bytes) {
        const uint64_t end_bytes = memory_.bytes().size();
        if (offset_bytes >= end_bytes || size_bytes == 0) {
            return size_bytes == 0;
        }
        size_bytes = std::min(size_bytes, end_bytes - offset_bytes);
        const size_t got = file_.read_at(offset_bytes, memory_.write_at(offset_bytes, size_bytes), size_bytes);
        read_bytes_ += got;
        return got == size_bytes;
    }

    bool rows(const RegionDescriptor& region, uint64_t count) {
        return piece(region.offset_bytes, std::min(count, region.count) * region.stride_bytes);
    }

    // The slots of the newest tickets.
    bool newest(const RegionDescriptor& region, uint64_t head, uint64_t most) {
        if (region.count == 0) {
            return true;
        }
        const uint64_t wanted = std::min({head, most, region.count});
        const uint64_t first = (head - wanted) % region.count;
        const uint64_t until_end = std::min(wanted, region.count - first);
        return piece(region.offset_bytes + first * region.stride_bytes, until_end * region.stride_bytes) &&
               rows(region, wanted - until_end);
    }

    size_t read_bytes() const { return read_bytes_; }

  private:
    const OwnedFile& file_;
    ImageBuffer& memory_;
    size_t read_bytes_ = 0;
};

// True where the region is of use here.
bool read_region(Reader& reader, const RegionDescriptor& region, uint64_t head, bool& whole) {
    switch (region.kind) {
        case RegionKind::kCollectives: whole &= reader.newest(region, head, kNewestCalls); return true;
        case RegionKind::kMarkers: whole &= reader.newest(region, head, kNewestMarkers); return true;
        case RegionKind::kCommunicators:
        case RegionKind::kStringHeap:
        case RegionKind::kP2pCounters: whole &= reader.rows(region, head); return true;
        case RegionKind::kThreads:
        case RegionKind::kStringIndex:
        case RegionKind::kLabels:
        case RegionKind::kLaunchMarks: whole &= reader.rows(region, region.count); return true;
        case RegionKind::kHealth: whole &= reader.newest(region, head, region.count); return true;
        default: return false;
    }
}

// Regions that are not read are taken out of the header of the image.
Result<size_t> read_newest(const OwnedFile& file, ImageBuffer& memory) {
    Reader reader(file, memory);
    if (file.size_bytes() < sizeof(RingHeader) || file.size_bytes() > kMaxRingBytes ||
        !memory.reset(file.size_bytes()) || !reader.piece(0, sizeof(RingHeader))) {
        return Error("no ring, or cut off");
    }
    RingHeader header;
    std::memcpy(&header, memory.bytes().data(), sizeof(header));
    bool whole = header.magic == format::kRingMagic && header.file_bytes <= file.size_bytes();
    format::for_each_region(header, [&](RegionDescriptor& region, const format::RegionCursor* cursor) {
        const bool sane = region.stride_bytes != 0 && region.offset_bytes < file.size_bytes() &&
                          region.count <= (file.size_bytes() - region.offset_bytes) / region.stride_bytes;
        if (!whole || !sane || !read_region(reader, region, cursor != nullptr ? cursor->head : region.count, whole)) {
            region.kind = RegionKind::kNone;
        }
    });
    if (!whole) {
        return Error("truncated or damaged");
    }
    std::memcpy(memory.write_at(0, sizeof(header)), &header, sizeof(header));
    return reader.read_bytes();
}

// Slots that were taken while we read are known by the heads afterwards.
std::optional<format::RegionHeads> heads_now(const OwnedFile& file) {
    RingHeader header;
    if (file.read_at(0, &header, sizeof(header)) != sizeof(header)) {
        return std::nullopt;
    }
    return format::heads_of(header);
}

struct StepMark {
    int64_t step;
    int64_t at_ns;
};

double rate_of(const std::vector<StepMark>& marks, int64_t now_ns) {
    if (marks.size() < 2) {
        return -1;
    }
    const StepMark& last = marks.back();
    size_t first = marks.size() - 2;
    while (first > 0 && marks[first - 1].at_ns >= last.at_ns - kRateWindowNs) {
        --first;
    }
    const int64_t steps = last.step - marks[first].step;
    const int64_t span_ns = last.at_ns - marks[first].at_ns;
    if (steps <= 0 || span_ns <= 0) {
        return -1;
    }
    const bool stopped = now_ns - last.at_ns > 3 * span_ns / steps + 1'000'000'000;
    return stopped ? 0 : static_cast<double>(steps) * 1e9 / static_cast<double>(span_ns);
}

void read_steps(const format::RingImage& image, int64_t now_ns, RankView& rank) {
    std::vector<StepMark> marks;
    image.for_each_marker([&](uint64_t, const format::MarkerEntry& marker) {
        if (marker.kind == format::MarkerKind::kStep) {
            marks.push_back({static_cast<int64_t>(marker.value), image.clock().realtime_ns(marker.ticks)});
        }
    });
    rank.steps_per_s = rate_of(marks, now_ns);
    const int64_t began_ns = image.clock().realtime_ns(image.header().step_ticks);
    rank.step_age_ns = began_ns == 0 ? 0 : std::max<int64_t>(0, now_ns - began_ns);
}

analyzer::Liveness liveness_of(const NodeProcess& process) {
    if (!process.is_gone()) {
        return process.header.state == format::ProcessState::kExited ? analyzer::Liveness::kExited
                                                                     : analyzer::Liveness::kAlive;
    }
    return analyzer::dead_how(process.header);
}

// `memory` is scratch, for one ring after the other.
Result<RankView> look_at_ring(const NodeProcess& process, ImageBuffer& memory) {
    const Result<OwnedFile> file = OwnedFile::open(process.directory, process.ring_name, OwnedFile::For::kReading);
    if (!file) {
        return file.error();
    }
    const Result<size_t> read_bytes = read_newest(*file, memory);
    if (!read_bytes) {
        return read_bytes.error().within(process.ring_path());
    }
    Result<format::RingImage> image = format::RingImage::open(memory.bytes(), heads_now(*file));
    if (!image) {
        return image.error().within(process.ring_path());
    }
    analyzer::OpenedSource opened;
    opened.image = *image;
    opened.source.is_ring = true;
    opened.source.path = process.ring_path();
    opened.source.label = process.ring_name;
    opened.liveness = liveness_of(process);
    opened.now_ticks = image->clock().ticks_now();
    RankView rank;
    rank.process = analyzer::decode_process(opened);
    rank.read_bytes = *read_bytes;
    read_steps(*image, rank.process.now_ns, rank);
    return rank;
}

using analyzer::Absence;
using analyzer::AbsenceReason;
using analyzer::Communicator;
using analyzer::MemberRef;
using analyzer::Process;
using analyzer::Run;
using analyzer::WaitKind;
using analyzer::WaitNode;

// The tracer's thread moves the heartbeat once a second.
constexpr int64_t kSilentNs = 5'000'000'000;

std::string state_text(const NodeProcess& process) {
    if (process.is_gone()) {
        const bool zombie = process.presence == Presence::kZombie;
        switch (process.header.state) {
            case format::ProcessState::kExited: return "exited";
            case format::ProcessState::kCrashed: return "crashed";
            default: return zombie ? "zombie" : "dead";
        }
    }
    const bool silent = process.presence == Presence::kRunning && process.heartbeat_age_ns > kSilentNs;
    return silent ? "silent" : presence_text(process.presence);
}

void describe_thread(const Process& process, RankRow& row) {
    const analyzer::ThreadState* const thread = analyzer::most_informative_thread_state(process);
    if (process.is_gone() || thread == nullptr) {
        return;
    }
    const int64_t since_ns = thread->call != 0 ? thread->entered_ns : thread->last_call_ns;
    const std::string& call = process.text(thread->call);
    row.doing =
        thread->call != 0 ? fmt::format("{} {}", analyzer::HostCall(call).preposition(), call) : "in program code";
    row.doing_ns = since_ns == 0 ? 0 : std::max<int64_t>(0, process.now_ns - since_ns);
    row.span = thread->spans.empty() ? std::string() : process.text(thread->spans.back());
}

RankRow row_of(const Process& process) {
    RankRow row;
    row.rank = process.rank;
    row.pid = process.pid;
    row.step = process.step;
    describe_thread(process, row);
    const analyzer::GpuBrief gpu = analyzer::worst_gpu(process);
    row.gpu = gpu.words;
    row.is_throttled = gpu.is_throttled;
    for (const analyzer::MetricRecord& metric : process.metrics) {
        if (metric.bad_ever != 0 && row.odd_metric.empty()) {
            row.odd_metric = analyzer::name_or_none(process.text(metric.name));
        }
    }
    return row;
}

RankRow row_of(const NodeProcess& node, const RankView& rank) {
    RankRow row = row_of(rank.process);
    row.state = state_text(node);
    row.heartbeat_age_ns = node.heartbeat_age_ns;
    row.step_age_ns = rank.step_age_ns;
    row.steps_per_s = node.is_gone() ? -1 : rank.steps_per_s;
    return row;
}

int rank_of(const Run& run, MemberRef ref, int global_rank) {
    return global_rank >= 0 ? global_rank : ref.known() ? run.processes[ref.process].rank : -1;
}

void add(std::vector<int>& ranks, int rank) {
    if (rank >= 0) {
        ranks.push_back(rank);
    }
}

bool is_here(const Absence& absence) { return absence.member.known() && absence.reason != AbsenceReason::kUnknown; }

std::string what_text(const Communicator& communicator, const WaitNode& node, const Run& run) {
    switch (node.kind) {
        case WaitKind::kCollective: return analyzer::call_text(communicator, node.op, node.sequence);
        case WaitKind::kPointToPoint:
            return fmt::format("{} #{} from rank {} to rank {} on {}", analyzer::op_text(node.op), node.sequence,
                               run.global_rank(communicator, node.source), run.global_rank(communicator, node.target),
                               analyzer::communicator_text(communicator));
        case WaitKind::kCreation: break;
    }
    return fmt::format("{} of {}", analyzer::op_text(node.op), analyzer::communicator_text(communicator));
}

CallRow start_row(const Communicator& communicator) {
    CallRow row;
    row.id = id_text(communicator.id);
    row.name = analyzer::communicator_text(communicator);
    row.size = communicator.size;
    const auto here = static_cast<int32_t>(std::count_if(communicator.members.begin(), communicator.members.end(),
                                                         [](MemberRef ref) { return ref.known(); }));
    row.elsewhere = row.size > here ? static_cast<uint32_t>(row.size - here) : 0;
    return row;
}

CallRow row_of_wait(const Run& run, const WaitNode& node) {
    const Communicator& communicator = run.communicators[node.communicator];
    CallRow row = start_row(communicator);
    row.what = what_text(communicator, node, run);
    row.sequence = node.sequence;
    row.operation = analyzer::op_text(node.op);
    row.progress_unknown = node.device_unknown;
    for (const analyzer::Waiter& waiter : node.waiting) {
        row.pending_ns = std::max(row.pending_ns, waiter.age_ns);
        add(row.arrived, rank_of(run, waiter.member, run.member(waiter.member).global_rank));
    }
    for (const analyzer::Blocked& blocked : node.blocked) {
        add(row.queued, rank_of(run, blocked.member, run.member(blocked.member).global_rank));
    }
    for (const int rank : node.finished) {
        add(row.arrived, rank);
    }
    for (const Absence& absence : node.absent) {
        if (is_here(absence)) {
            add(row.missing, rank_of(run, absence.member, absence.global_rank));
        }
    }
    sort_unique(row.arrived);
    sort_unique(row.queued);
    sort_unique(row.missing);
    return row;
}

// Nobody waits: the newest collective of those that any member has issued.
CallRow row_of_last(const Run& run, const Communicator& communicator) {
    CallRow row = start_row(communicator);
    uint64_t issued = 0;
    for (const MemberRef ref : communicator.members) {
        issued = std::max(issued, ref.known() ? run.member(ref).issued : 0);
    }
    for (const MemberRef ref : communicator.members) {
        if (!ref.known() || issued == 0 || run.member(ref).issued != issued) {
            continue;
        }
        const Process& process = run.process(ref);
        add(row.arrived, rank_of(run, ref, run.member(ref).global_rank));
        row.progress_unknown |= !process.gpu_progress || process.gpu_sample > 1;
        if (const analyzer::Entry* entry = process.call_at(run.member(ref), issued - 1)) {
            row.operation = analyzer::op_text(entry->kind);
            row.what = analyzer::call_text(communicator, entry->kind, issued - 1);
        }
    }
    row.sequence = issued == 0 ? analyzer::kNoSequence : issued - 1;
    if (row.what.empty()) {
        row.what = fmt::format("#{} on {}", issued - 1, row.name);
    }
    sort_unique(row.arrived);
    return row;
}

bool is_closed(const Run& run, const Communicator& communicator) {
    return std::all_of(communicator.members.begin(), communicator.members.end(), [&](MemberRef ref) {
        return !ref.known() || run.member(ref).closed_ns != 0 || run.process(ref).is_gone();
    });
}

void add_calls(const Run& run, JobView& job) {
    const analyzer::WaitGraph graph = analyzer::build_wait_graph(run, analyzer::SiblingEdits(run));
    std::set<uint32_t> shown;
    std::map<uint32_t, std::pair<int64_t, std::vector<int>>> waits;  // key: process; for how long and for whom it waits
    for (const WaitNode& node : graph.nodes) {
        if (node.communicator == analyzer::kNoIndex || node.waiting.empty()) {
            continue;
        }
        CallRow row = row_of_wait(run, node);
        for (const analyzer::Waiter& waiter : node.waiting) {
            auto& [longest_ns, ranks] = waits[waiter.member.process];
            const std::vector<int>& culprits = row.missing.empty() ? row.queued : row.missing;
            const int own = run.processes[waiter.member.process].rank;
            const bool is_one = std::find(culprits.begin(), culprits.end(), own) != culprits.end();
            if (waiter.age_ns > longest_ns && !culprits.empty() && !is_one) {
                longest_ns = waiter.age_ns;
                ranks = culprits;
            }
        }
        if (node.kind == WaitKind::kCollective) {
            shown.insert(node.communicator);
        }
        job.calls.push_back(std::move(row));
    }
    for (uint32_t i = 0; i < run.communicators.size(); ++i) {
        if (shown.contains(i) || is_closed(run, run.communicators[i])) {
            continue;
        }
        CallRow row = row_of_last(run, run.communicators[i]);
        if (row.sequence != analyzer::kNoSequence) {
            job.calls.push_back(std::move(row));
        }
    }
    std::stable_sort(job.calls.begin(), job.calls.end(),
                     [](const CallRow& a, const CallRow& b) { return a.pending_ns > b.pending_ns; });
    for (const auto& [process, wait] : waits) {
        job.ranks[process].waits_for = wait.second;
        job.ranks[process].waits_ns = wait.first;
    }
}

// A run that is linked; rows of ranks in the order of Run::processes.
JobView view_of_run(const Run& run, std::vector<RankRow> rows) {
    JobView job;
    job.run = run.id;
    job.attempt = run.attempt;
    job.world_size = run.world_size;
    job.ranks = std::move(rows);
    job.host = analyzer::host_brief(run.processes);
    add_calls(run, job);
    job.observed = analyzer::observing_texts(run);
    return job;
}

JobView view_of_job(std::vector<std::pair<NodeProcess, RankView>>& seen) {
    std::stable_sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.process.rank, a.second.process.pid) <
               std::pair(b.second.process.rank, b.second.process.pid);
    });
    std::vector<RankRow> rows;
    Run run;
    for (auto& [node, rank] : seen) {
        rows.push_back(row_of(node, rank));
        run.world_size = std::max(run.world_size, rank.process.world_size);
        run.processes.push_back(std::move(rank.process));
    }
    run.id = run.processes.front().run;
    run.attempt = run.processes.front().attempt;
    analyzer::link(run);
    JobView job = view_of_run(run, std::move(rows));
    job.conclusion = conclusion_of(job);
    return job;
}

// --- The last state of a run, from its records.

std::string state_text(const Process& process) {
    switch (process.liveness) {
        case analyzer::Liveness::kUnknown: return "unknown";
        case analyzer::Liveness::kAlive: return process.ending.halt == Halt::kNone ? "running" : "stopped";
        case analyzer::Liveness::kExited: return process.ending.failed() ? "failed" : "exited";
        case analyzer::Liveness::kCrashed: return "crashed";
        case analyzer::Liveness::kKilled:
        case analyzer::Liveness::kEnded: break;
    }
    return "dead";
}

// The steps of its last seconds: how many a second, and their longest spans.
void describe_steps(const Process& process, RankRow& row) {
    std::map<std::string, double> spans_ns;
    std::vector<StepMark> marks;
    size_t steps = 0;
    for (auto step = process.steps.rbegin(); step != process.steps.rend(); ++step, ++steps) {
        if (step->begin_ns < process.steps.back().end_ns - kRateWindowNs && steps != 0) {
            break;
        }
        for (uint32_t i = 0; i < step->span_count; ++i) {
            const analyzer::SpanTime& span = process.step_spans[step->first_span + i];
            spans_ns[analyzer::name_or_none(process.text(span.name))] += static_cast<double>(span.busy_ns);
        }
    }
    if (steps == 0 || process.steps_by_period) {
        return;
    }
    const int64_t taken_ns = process.steps.back().end_ns - process.steps[process.steps.size() - steps].begin_ns;
    row.steps_per_s = taken_ns > 0 ? static_cast<double>(steps) * 1e9 / static_cast<double>(taken_ns) : -1;
    for (const auto& [name, sum_ns] : spans_ns) {
        row.spans_ns.push_back({name, sum_ns / static_cast<double>(steps)});
    }
    std::stable_sort(row.spans_ns.begin(), row.spans_ns.end(),
                     [](const NamedValue& a, const NamedValue& b) { return a.value > b.value; });
}

RankRow row_of_record(const Process& process) {
    RankRow row = row_of(process);
    row.state = state_text(process);
    describe_steps(process, row);
    for (const analyzer::MetricRecord& metric : process.metrics) {
        row.metrics.push_back({analyzer::name_or_none(process.text(metric.name)), metric.last_value});
    }
    if (process.has_ended()) {
        row.doing.clear();
        row.doing_ns = 0;
    }
    return row;
}

// Records have what a verdict takes.
Conclusion verdict_of(const Run& run) {
    const analyzer::Diagnosis diagnosis = analyzer::diagnose(run);
    const std::string text = analyzer::line_without_run(run, diagnosis);
    switch (analyzer::outcome_of(diagnosis)) {
        case analyzer::Outcome::kVerdict: return {Alert::kAlarm, text, diagnosis.findings.front().ranks};
        case analyzer::Outcome::kCannotTell: return {Alert::kLook, text, {}};
        case analyzer::Outcome::kWaiting:
        case analyzer::Outcome::kNothingWrong: break;
    }
    return {Alert::kNone, text, {}};
}

JobView view_of_records(const Run& run) {
    std::vector<RankRow> rows;
    int64_t newest_ns = 0;
    for (const Process& process : run.processes) {
        rows.push_back(row_of_record(process));
        newest_ns = std::max(newest_ns, process.now_ns);
    }
    JobView job = view_of_run(run, std::move(rows));
    job.recorded_ns = newest_ns;
    job.recorded_hosts = listed(run.hosts, 3);
    job.has_ended = std::ranges::all_of(run.processes, &Process::has_ended);
    job.conclusion = verdict_of(run);
    return job;
}

}  // namespace

Result<NodeView> look_at_records(const ViewOptions& options) {
    analyzer::LoadOptions load;
    load.paths = options.paths;
    load.run = options.run;
    load.with_journals = true;
    load.ring_directories = ring_directories(options.ring_directory);
    const Result<Run> run = analyzer::load_run(load);
    if (!run) {
        return run.error();
    }
    NodeView view;
    view.jobs.push_back(view_of_records(*run));
    for (const Run& beside : run->beside) {
        view.jobs.push_back(view_of_records(beside));
    }
    for (const JobView& job : view.jobs) {
        view.realtime_ns = std::max(view.realtime_ns, job.recorded_ns);
    }
    view.notes = mapped(run->warnings, &analyzer::Warning::summary);
    return view;
}

NodeView look_at_node(const ViewOptions& options, ImageBuffer& memory) {
    NodeView view;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    view.realtime_ns = static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
    NodeProcesses found = find_processes(options.ring_directory);
    leave_out_earlier(found.processes);
    view.problems = std::move(found.problems);
    std::map<std::pair<std::string, int32_t>, std::vector<NodeProcess>> jobs;
    for (NodeProcess& process : found.processes) {
        if (process.presence != Presence::kUnknown && (options.run.empty() || options.run == process.run())) {
            jobs[{process.run(), process.header.attempt}].push_back(std::move(process));
        }
    }
    for (const auto& [name, processes] : jobs) {
        const bool lives = std::any_of(processes.begin(), processes.end(),
                                       [](const NodeProcess& process) { return !process.is_gone(); });
        std::vector<std::pair<NodeProcess, RankView>> seen;
        for (const NodeProcess& process : lives || options.dead_jobs ? processes : std::vector<NodeProcess>()) {
            Result<RankView> rank = look_at_ring(process, memory);
            if (rank) {
                view.read_bytes += rank->read_bytes;
                seen.emplace_back(process, std::move(*rank));
            } else {
                view.problems.push_back(printable(rank.error().text()));
            }
        }
        if (!seen.empty()) {
            view.jobs.push_back(view_of_job(seen));
        }
    }
    return view;
}

}  // namespace titan::tools
