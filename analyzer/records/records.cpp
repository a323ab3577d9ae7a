#include "records.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "call_order.h"
#include "decode_process.h"
#include "formats/layout/journal_layout.h"
#include "fr_process.h"
#include "host/words.h"
#include "made_texts.h"
#include "named_stacks.h"
#include "open_source.h"
#include "run.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

// --- The stacks of a process of a run.

// The stacks that a digest has kept.
ProcessStacks from_digest(const Process& process) {
    ProcessStacks stacks;
    for (const ThreadPosition& position : process.positions) {
        ThreadStack& thread = stacks.threads.emplace_back();
        thread.tid = position.thread;
        thread.name = process.text(position.name);
        thread.held_gil = position.held_gil;
        for (const uint32_t frame : position.frames) {
            thread.merged.frames.push_back(process.text(frame));
        }
        if (position.frames.empty()) {
            thread.merged.frames.push_back("(" + process.text(position.why_none) + ")");
        }
    }
    stacks.notes.emplace_back(stacks.threads.empty()
                                  ? "no stacks in the digest"
                                  : "a digest keeps only the stacks of the threads that matter most");
    return stacks;
}

ProcessStacks from_dump(const OpenedSource& opened, Symbols& symbols) {
    ProcessStacks stacks;
    if (opened.stacks.empty()) {
        stacks.notes.emplace_back(
            "no stacks in the dump: it was made with TITANTRACE_STACKS=off, or from the ring of a dead process");
    } else if (auto read = read_stacks(opened.stacks, symbols, [](const auto&) { return true; })) {
        stacks = std::move(*read);
    } else {
        stacks.notes.push_back(read.error().text());
    }
    return stacks;
}

void add_children(const Process& process, ProcessStacks& stacks) {
    for (const ChildProcess& child : process.children) {
        if (child.ended_ns != 0) {
            continue;
        }
        DumpedChild& stack = stacks.children.emplace_back();
        stack.pid = child.pid;
        stack.name = process.text(child.name);
        stack.state = child.state;
        stack.wait_channel = process.text(child.wait_channel);
        stack.cpu_ns = child.cpu_ns;
        for (const uint32_t frame : child.frames) {
            stack.frames.push_back(process.text(frame));
        }
    }
}

// The stacks in the record `opened`, null if that is none of our dumps; notes say why there are none. A digest has
// stacks of a few threads, without addresses.
ProcessStacks stacks_of(const Process& process, const OpenedSource* opened, Symbols& symbols) {
    ProcessStacks stacks;
    if (process.source.is_flight_recorder) {
        stacks.notes.emplace_back("PyTorch's Flight Recorder keeps no stacks of threads");
    } else if (process.source.is_digest) {
        stacks = from_digest(process);
    } else if (process.source.is_journal) {
        stacks.notes.emplace_back("only its journal is left");
    } else if (opened != nullptr) {
        stacks = from_dump(*opened, symbols);
    }
    stacks.rank = process.rank;
    stacks.pid = process.pid;
    stacks.host = process.host;
    add_children(process, stacks);
    const auto main = std::find_if(stacks.threads.begin(), stacks.threads.end(),
                                   [&](const ThreadStack& thread) { return thread.tid == process.pid; });
    if (main != stacks.threads.end()) {
        std::rotate(stacks.threads.begin(), main, std::next(main));
    }
    return stacks;
}

}  // namespace

namespace fr = format::fr;

namespace {

// A digest keeps neither calls nor markers one by one: as where nothing else is left, a journal may have the markers.
bool is_read_from_journal(const Process& process) { return process.source.is_journal || process.source.is_digest; }

// The paths of journals that are logs of torchtitan, or the others.
std::vector<std::string> of_kind(const std::vector<std::string>& paths, bool is_log) {
    std::vector<std::string> chosen;
    std::copy_if(paths.begin(), paths.end(), std::back_inserter(chosen),
                 [is_log](const std::string& path) { return path.ends_with(format::kJournalSuffix) != is_log; });
    return chosen;
}

}  // namespace

std::string TorchCallRecord::group() const { return group_text(dump.text(raw.group), dump.text(raw.group_desc)); }

std::string TorchCallRecord::datatype() const {
    const fr::Range& tensors = raw.inputs.count != 0 ? raw.inputs : raw.outputs;
    return tensors.count == 0 ? std::string() : std::string(dump.text(dump.tensors[tensors.begin].dtype));
}

const char* TorchCallRecord::state() const {
    switch (raw.state) {
        case fr::State::kScheduled: return "scheduled";
        case fr::State::kStarted: return "started";
        case fr::State::kCompleted: return "completed";
        case fr::State::kUnknown: break;
    }
    return "unknown";
}

uint64_t bytes_of(const CollectiveRecord& record) {
    const uint64_t size_bytes = format::datatype_size_bytes(record.raw.datatype);
    return size_bytes != 0 && record.raw.count > INT64_MAX / size_bytes ? 0 : record.raw.count * size_bytes;
}

std::string StepCallsRecord::operation() const { return raw.kind == OpKind{} ? "others" : op_text(raw.kind); }

std::string StepCallsRecord::communicator_name() const {
    return !communicator.name.empty() ? communicator.name
           : raw.communicator_id == 0 ? std::string()
                                      : short_id_text(raw.communicator_id);
}

std::string StepCallsRecord::communicator_role() const {
    return raw.communicator_id == 0 ? "an unknown communicator" : role_text(communicator);
}

void ProcessRecords::hold(OpenedSource opened, Symbols& symbols) {
    symbols_ = &symbols;
    sites_ = std::make_unique<CallSites>(opened.image, &symbols);
    places_ = std::make_unique<MarkerPlaces>(opened.image, &symbols);
    bytes_ = std::move(opened);
}

namespace {

void tell(const TakeRecord& take, const auto& record) { take(&record); }

// Tells slots of a ring.
template <typename Record>
auto to_records(const ProcessRecords& of, const TakeRecord& take) {
    return [&](uint64_t ticket, const auto& raw) { tell(take, Record{of, ticket, raw}); };
}

void visit_markers_of(const ProcessRecords& records, const TakeRecord& take) {
    records.image().for_each_marker(to_records<MarkerRecord>(records, take));
}

}  // namespace

// Records of the same process; valid as long as the image.
ProcessRecords ProcessRecords::of_block(const format::RingImage& image) const {
    ProcessRecords block(run_, process_);
    OpenedSource opened;
    opened.image = image;
    block.role_ = role_;
    block.hold(std::move(opened), *symbols_);
    return block;
}

void ProcessRecords::visit_log(const TakeRecord& take) const {
    const Result<std::string> lost =
        visit_structured_log(*log_, [&](const format::RingImage& image) { visit_markers_of(of_block(image), take); });
    const std::string problem = lost ? *lost : lost.error().text();
    const std::string text = fmt::format("{}: {}", process_.source.label, problem);
    if (!problem.empty() && std::find(problems_->begin(), problems_->end(), text) == problems_->end()) {
        problems_->push_back(text);
    }
}

// From journals, those on tickets from `from` to before `until`. Answers how many of them are in none.
uint64_t ProcessRecords::visit_journaled(uint64_t from, uint64_t until, const StepRange& steps,
                                         const TakeRecord& take) const {
    return from >= until
               ? 0
               : journals_->visit(process_key(process_), from, until, steps,
                                  [&](const format::RingImage& block) { visit_markers_of(of_block(block), take); });
}

// What the ring holds is taken from it; what it does not hold, from the journal: markers before it, those that were
// being written while it was copied, and, behind a dump, those since.
format::RingLosses ProcessRecords::visit_markers(const TakeRecord& take, const StepRange& steps) const {
    format::RingLosses losses;
    if (log_ != nullptr) {
        visit_log(take);
        return losses;
    }
    if (is_read_from_journal(process_)) {
        losses.overwritten = visit_journaled(0, UINT64_MAX, steps, take);
        return losses;
    }
    const format::RingImage& ring = image();
    const uint64_t end = ring.next_marker();
    uint64_t next = ring.first_marker();
    uint64_t holes = 0;
    losses.overwritten = visit_journaled(0, next, steps, take);
    const auto tell = [&](uint64_t ticket, const format::MarkerEntry& raw) {
        holes += visit_journaled(next, ticket, steps, take);
        analyzer::tell(take, MarkerRecord{*this, ticket, raw});
        next = ticket + 1;
    };
    // A slot that was written again during the copy comes in place of an older one.
    std::vector<std::pair<uint64_t, format::MarkerEntry>> newer;
    losses.torn = ring.for_each_marker([&](uint64_t ticket, const format::MarkerEntry& raw) {
                          if (ticket >= end) {
                              newer.emplace_back(ticket, raw);
                          } else {
                              tell(ticket, raw);
                          }
                      })
                      .torn;
    holes += visit_journaled(next, end, steps, take);
    next = std::max(next, end);
    for (const auto& [ticket, raw] : newer) {
        tell(ticket, raw);
    }
    losses.torn = std::min(losses.torn, holes);
    losses.overwritten += visit_journaled(next, UINT64_MAX, steps, take);
    return losses;
}

namespace {

// The communicators of sums: as the run knows them, or the blocks of the journal.
class SumCommunicators {
  public:
    explicit SumCommunicators(const Run& run) : run_(run) {}

    void note(const format::MarkerBlock& block) {
        for (const format::StepCommunicator& one : block.communicators) {
            Communicator& known = journaled_[one.id];
            known.id = one.id;
            known.size = one.size;
            known.name = printable(block.text(one.name));
        }
    }
    const Communicator& of(uint64_t id) const {
        if (const auto index = run_.find_communicator(id)) {
            return run_.communicators[*index];
        }
        const auto known = journaled_.find(id);
        return known == journaled_.end() ? unknown_ : known->second;
    }

  private:
    const Run& run_;
    std::map<uint64_t, Communicator> journaled_;
    Communicator unknown_;
};

// A step is told once it is over: its calls may lie in the journal and in the ring.
class StepTeller {
  public:
    StepTeller(const Run& run, const ProcessRecords& records, const TakeRecord& take)
        : communicators_(run), records_(records), take_(take) {}

    void add(const format::MarkerBlock& block) {
        communicators_.note(block);
        auto calls = block.calls.begin();
        for (const format::StepSum& sum : block.steps) {
            begin(sum.step);
            add_sum(sum_, sum);
            for (; calls != block.calls.end() && calls->step == sum.step; ++calls) {
                const auto [known, is_new] = calls_.try_emplace({calls->communicator_id, calls->kind}, *calls);
                if (!is_new) {
                    add_sum(known->second, *calls);
                }
            }
        }
    }
    void add(const format::CollectiveEntry& call) {
        begin(call.step);
        add_call(sum_, call);
        if (counts_in_steps(call)) {
            format::StepCalls& calls = calls_[{call.communicator_id, call.kind}];
            calls.step = call.step;
            calls.communicator_id = call.communicator_id;
            calls.kind = call.kind;
            add_call(calls, call);
        }
    }
    void tell() {
        if (sum_.calls != 0) {
            analyzer::tell(take_, StepRecord{records_, sum_});
        }
        for (const auto& [key, calls] : calls_) {
            if (calls.calls != 0) {
                analyzer::tell(take_, StepCallsRecord{records_, calls, communicators_.of(calls.communicator_id)});
            }
        }
    }

  private:
    void begin(int64_t step) {
        if (step != sum_.step) {
            tell();
            sum_ = {};
            sum_.step = step;
            calls_.clear();
        }
    }

    SumCommunicators communicators_;
    const ProcessRecords& records_;
    const TakeRecord& take_;
    format::StepSum sum_{};
    std::map<std::pair<uint64_t, OpKind>, format::StepCalls> calls_;
};

}  // namespace

format::RingLosses ProcessRecords::visit_steps(const TakeRecord& take, const StepRange& steps) const {
    StepTeller teller(run_, *this, take);
    const auto add = [&teller](const format::MarkerBlock& block) { teller.add(block); };
    format::RingLosses losses;
    journals_->visit_steps(process_key(process_), steps, add, [&](uint64_t from, uint64_t until) {
        uint64_t first = UINT64_MAX;
        uint64_t found = 0;
        losses.torn = image()
                          .for_each_collective([&](uint64_t ticket, const format::CollectiveEntry& call) {
                              first = std::min(first, ticket);
                              if (ticket >= from && ticket < until) {
                                  teller.add(call);
                                  ++found;
                              }
                          })
                          .torn;
        const uint64_t before_ring = first == UINT64_MAX || first <= from ? 0 : first - from;
        losses.overwritten += until == UINT64_MAX ? before_ring : until - from - found;
    });
    teller.tell();
    return losses;
}

uint64_t ProcessRecords::visit_summed_calls(const TakeRecord& take, const StepRange& steps) const {
    uint64_t ring_begin = UINT64_MAX;
    image().for_each_collective(
        [&](uint64_t ticket, const format::CollectiveEntry&) { ring_begin = std::min(ring_begin, ticket); });
    uint64_t next = 0;
    StepTeller teller(run_, *this, take);
    const auto add = [&](const format::MarkerBlock& block) {
        if (block.first_call < ring_begin && !block.calls.empty()) {
            teller.add(block);
            next = block.next_call;
        }
    };
    journals_->visit_steps(process_key(process_), steps, add, [](uint64_t, uint64_t) {});
    teller.tell();
    return next;
}

void ProcessRecords::visit_extremes(const TakeRecord& take, const StepRange& steps) const {
    journals_->visit_health(process_key(process_), steps, [&](const format::MarkerBlock& block) {
        for (const format::HealthExtremes& row : block.health) {
            tell(take, ExtremesRecord{*this, row, printable(block.text(row.name))});
        }
    });
}

format::RingLosses ProcessRecords::visit(RecordKind kind, const TakeRecord& take, const StepRange& steps) const {
    if (const auto* dump = std::get_if<fr::Dump>(&bytes_)) {
        for (size_t i = 0; kind == RecordKind::kCollective && i < dump->entries.size(); ++i) {
            const fr::Entry& entry = dump->entries[i];
            tell(take, TorchCallRecord{*this, *dump, entry, parse_call_name(dump->text(entry.name))});
        }
        return {};
    }
    const format::RingImage& image = opened().image;
    switch (kind) {
        case RecordKind::kCollective: return image.for_each_collective(to_records<CollectiveRecord>(*this, take));
        case RecordKind::kCudaCall: return image.for_each_cuda_call(to_records<CudaCallRecord>(*this, take));
        case RecordKind::kWork: return image.for_each_stream_work(to_records<WorkRecord>(*this, take));
        case RecordKind::kChannel: return image.for_each_channel(to_records<ChannelRecord>(*this, take));
        case RecordKind::kMarker: return visit_markers(take, steps);
        case RecordKind::kHealth: return image.for_each_health(to_records<HealthRecord>(*this, take));
        case RecordKind::kLabel:
            for (const auto& [key, value] : process_.labels) {
                tell(take, LabelRecord{*this, printable(process_.text(key)), printable(process_.text(value))});
            }
            break;
        case RecordKind::kStep:
        case RecordKind::kStepCalls: return visit_steps(take, steps);
        case RecordKind::kExtremes: visit_extremes(take, steps); break;
        case RecordKind::kTorchCall: break;
    }
    return {};
}

bool ProcessRecords::has_journal() const { return journals_ != nullptr && journals_->holds(process_key(process_)); }

ProcessStacks ProcessRecords::stacks() const { return stacks_of(process_, &opened(), *symbols_); }

Process ProcessRecords::decoded() const {
    if (const auto* dump = std::get_if<fr::Dump>(&bytes_)) {
        GroupRanks known;  // to the run
        return process_of_dump(*dump, process_.rank, process_.source.written_ns, known);
    }
    return decode_process(opened());
}

const Entry* ProcessRecords::entry(uint64_t ticket) const {
    if (decoded_ == nullptr) {
        decoded_ = std::make_unique<Process>(decoded());
    }
    return decoded_->entry_of_ticket(ticket);
}

std::string ProcessRecords::text(uint32_t id) const { return printable(image().text(id)); }

const ProcessRecords::CommunicatorTexts& ProcessRecords::communicator(uint64_t id) const {
    const auto [known, is_new] = communicators_.try_emplace(id);
    if (is_new) {
        const auto index = run_.find_communicator(id);
        known->second = {id_text(id), index ? communicator_name(run_.communicators[*index]) : short_id_text(id)};
    }
    return known->second;
}

int ProcessRecords::global_rank(uint64_t communicator_id, int member) const {
    const auto index = run_.find_communicator(communicator_id);
    return index ? run_.global_rank(run_.communicators[*index], member) : -1;
}

std::string ProcessRecords::machine(std::string_view key) const {
    const auto* opened = std::get_if<OpenedSource>(&bytes_);
    for (size_t i = 0; opened != nullptr && i < opened->machine.size(); ++i) {
        const auto& [known, value] = opened->machine[i];
        if (known == key) {
            return printable(value);
        }
    }
    return "";
}

RecordReader::RecordReader(const Run& run, Symbols& symbols)
    : run_(run), symbols_(symbols), journals_(of_kind(run.journals, false)) {
    for (const std::string& path : of_kind(run.journals, true)) {
        add_log(path);
    }
    for (const auto* some : {&run.processes, &run.journaled, &std::as_const(logged_)}) {
        std::transform(some->begin(), some->end(), std::back_inserter(processes_),
                       [](const Process& process) { return &process; });
    }
    std::stable_sort(processes_.begin(), processes_.end(),
                     [](const Process* a, const Process* b) { return a->rank < b->rank; });
}

void RecordReader::add_log(const std::string& path) {
    const std::string label = printable(base_name(path));
    Result<StructuredLog> log = open_structured_log(path);
    std::vector<std::byte> memory;
    const Result<format::RingImage> image = log ? header_image(*log, memory) : log.error();
    if (!image) {
        log_problems_.push_back(image.error().within(label).text());
        return;
    }
    OpenedSource opened;
    opened.image = *image;
    opened.now_ticks = opened.seen_ticks = static_cast<uint64_t>(log->last_ns);
    opened.source.path = path;
    opened.source.label = label;
    opened.source.is_journal = true;
    Process& process = logged_.emplace_back(decode_process(opened));
    process.attempt = run_.attempt;
    MadeTexts texts(process.texts);
    process.labels.emplace_back(texts.add(kRoleLabel), texts.add(log->source));
    has_roles_ |= !logs_.empty() && logs_.begin()->second.source != log->source;
    logs_.emplace(path, std::move(*log));
}

const std::vector<std::string>& RecordReader::problems() {
    problems_ = journals_.problems();
    problems_.insert(problems_.end(), log_problems_.begin(), log_problems_.end());
    return problems_;
}

Result<ProcessRecords> RecordReader::open(const Process& process) {
    ProcessRecords records(run_, process);
    records.journals_ = &journals_;
    if (const auto known = logs_.find(process.source.path); known != logs_.end()) {
        const StructuredLog& log = known->second;
        Result<format::RingImage> image = header_image(log, records.block_);
        if (!image) {
            return image.error();
        }
        OpenedSource opened;
        opened.image = *image;
        records.log_ = &log;
        records.problems_ = &log_problems_;
        records.role_ = has_roles_ ? log.source : "";
        records.hold(std::move(opened), symbols_);
        return records;
    }
    if (is_read_from_journal(process)) {
        OpenedSource opened;
        if (!journals_.newest(process_key(process), records.block_, opened.image)) {
            return Error(process.source.is_digest ? "digests do not hold all calls in full"
                                                  : "its journal cannot be read any more");
        }
        records.hold(std::move(opened), symbols_);
        return records;
    }
    if (process.source.is_flight_recorder) {
        Result<fr::Dump> dump = read_flight_recorder(process.source, scratch_);
        if (!dump) {
            return dump.error();
        }
        records.bytes_ = std::move(*dump);
    } else {
        Result<OpenedSource> opened = open_source(process.source, memory_);
        if (!opened) {
            return opened.error();
        }
        records.hold(std::move(*opened), symbols_);
    }
    return records;
}

ProcessStacks RecordReader::stacks(const Process& process) {
    const bool dumped = !process.source.is_flight_recorder && !process.source.is_digest && !process.source.is_journal;
    const Result<OpenedSource> opened = dumped ? open_source(process.source, memory_) : Error("no dump of ours");
    ProcessStacks stacks = stacks_of(process, opened ? &*opened : nullptr, symbols_);
    if (dumped && !opened) {
        stacks.notes.push_back(opened.error().text());
    }
    return stacks;
}

}  // namespace titan::analyzer
