// Every record of a process in full, ours and PyTorch's Flight Recorder's alike, for all who need more than the
// condensed process of a Run. Files are opened again here and nowhere else; one process at a time is in memory, and its
// records are visited, not collected.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <variant>
#include <vector>

#include "call_site_names.h"
#include "fr_file.h"
#include "fr_names.h"
#include "host/image_buffer.h"
#include "host/json_value.h"
#include "host/result.h"
#include "journals.h"
#include "named_stacks.h"
#include "open_source.h"
#include "run.h"
#include "structured_log.h"
#include "table.h"

namespace titan::analyzer {

// Takes a line, or some.
using Write = std::function<void(const std::string&)>;
// Is told how many of the processes are read. Empty: nobody wants to know.
using ReadProgress = std::function<void(size_t done, size_t total)>;

enum class RecordKind {
#define RECORD(kind, option, meaning) kind,
#define FIELD(kind, key, type, unit, meaning, value)
#include "records.def"
};

class ProcessRecords;

// A slot of a ring.
template <RecordKind kind, typename Raw>
struct RingRecord {
    static constexpr RecordKind kKind = kind;
    const ProcessRecords& of;
    uint64_t ticket;
    const Raw& raw;
};
using CollectiveRecord = RingRecord<RecordKind::kCollective, format::CollectiveEntry>;
using CudaCallRecord = RingRecord<RecordKind::kCudaCall, format::CudaCallEntry>;
using WorkRecord = RingRecord<RecordKind::kWork, format::StreamWorkEntry>;
using ChannelRecord = RingRecord<RecordKind::kChannel, format::ChannelEntry>;
using MarkerRecord = RingRecord<RecordKind::kMarker, format::MarkerEntry>;
using HealthRecord = RingRecord<RecordKind::kHealth, format::HealthEntry>;

struct StepRecord {
    static constexpr RecordKind kKind = RecordKind::kStep;
    const ProcessRecords& of;
    const format::StepSum& raw;
};

// What the calls of one operation on one communicator add up to in a step.
struct StepCallsRecord {
    static constexpr RecordKind kKind = RecordKind::kStepCalls;
    const ProcessRecords& of;
    const format::StepCalls& raw;
    const Communicator& communicator;  // as the run knows it, or the journal; id 0: several, or unknown

    std::string operation() const;
    std::string communicator_name() const;
    std::string communicator_role() const;  // role_text()
};

// Of readings of the machine.
struct ExtremesRecord {
    static constexpr RecordKind kKind = RecordKind::kExtremes;
    const ProcessRecords& of;
    const format::HealthExtremes& raw;
    std::string name;
};

struct LabelRecord {
    static constexpr RecordKind kKind = RecordKind::kLabel;
    const ProcessRecords& of;
    std::string name;
    std::string text;
};

struct TorchCallRecord {
    static constexpr RecordKind kKind = RecordKind::kTorchCall;
    const ProcessRecords& of;
    const format::fr::Dump& dump;
    const format::fr::Entry& raw;
    CallName name;

    std::string group() const;
    std::string datatype() const;
    const char* state() const;
};

uint64_t bytes_of(const CollectiveRecord& record);  // as passed; 0 where a damaged count makes it no number

// A record of any kind; it lives until the call returns.
using AnyRecord = std::variant<const CollectiveRecord*, const TorchCallRecord*, const CudaCallRecord*,
                               const WorkRecord*, const ChannelRecord*, const MarkerRecord*, const HealthRecord*,
                               const LabelRecord*, const StepRecord*, const StepCallsRecord*, const ExtremesRecord*>;
using TakeRecord = std::function<void(const AnyRecord& record)>;

// Calls take(record) for each record of a kind that it takes. `take` must outlive the result.
template <typename Take>
TakeRecord taken_by(const Take& take) {
    return [&take](const AnyRecord& any) {
        const auto tell = [&take](const auto* record) {
            if constexpr (std::is_invocable_v<const Take&, decltype(*record)>) {
                take(*record);
            }
        };
        std::visit(tell, any);
    };
}

// Not thread-safe.
class ProcessRecords {
  public:
    int rank() const { return process_.rank; }
    // Where ranks count within roles, as in logs of several roles: "trainer". Empty elsewhere.
    const std::string& role() const { return role_; }
    const Process& process() const { return process_; }  // the run's process: condensed, and linked
    // Oldest first; markers also from the journal. kCollective holds calls of either recorder; Flight Recorder files
    // have nothing else.
    // Answers what is lost of that kind. Who wants some steps alone gets all of their markers and sums, and of others
    // what comes along.
    template <typename Take>
    format::RingLosses each(RecordKind kind, const Take& take, const StepRange& steps = {}) const {
        return visit(kind, taken_by(take), steps);
    }
    // Visits the sums of calls that only the journal has. Answers the ticket of the first call behind those.
    uint64_t visit_summed_calls(const TakeRecord& take, const StepRange& steps) const;
    // Every call decoded: of our records in the order of each().
    Process decoded() const;
    // The decoded call of a record of ours; decodes all at the first one. nullptr: none is on that ticket.
    const Entry* entry(uint64_t ticket) const;
    bool has_journal() const;
    ProcessStacks stacks() const;  // of our records only

    std::string text(uint32_t id) const;
    struct CommunicatorTexts {
        std::string id;
        std::string name;  // or the start of the id
    };
    const CommunicatorTexts& communicator(uint64_t id) const;     // lives as long as this
    int global_rank(uint64_t communicator_id, int member) const;  // -1 unknown
    // What the host is made of, by a key of FORMAT.md, section 5; empty where the record does not tell.
    std::string machine(std::string_view key) const;
    const format::RingImage& image() const { return opened().image; }
    int64_t span_ns(uint64_t ticks) const { return image().clock().span_ns(0, ticks); }
    int64_t realtime_ns(uint64_t ticks) const { return image().clock().realtime_ns(ticks); }
    CallSites& sites() const { return *sites_; }       // our records only
    MarkerPlaces& places() const { return *places_; }  // likewise

  private:
    friend class RecordReader;
    ProcessRecords(const Run& run, const Process& process) : run_(run), process_(process) {}

    const OpenedSource& opened() const { return std::get<OpenedSource>(bytes_); }
    format::RingLosses visit(RecordKind kind, const TakeRecord& take, const StepRange& steps) const;
    format::RingLosses visit_markers(const TakeRecord& take, const StepRange& steps) const;
    uint64_t visit_journaled(uint64_t from, uint64_t until, const StepRange& steps, const TakeRecord& take) const;
    void visit_log(const TakeRecord& take) const;
    ProcessRecords of_block(const format::RingImage& image) const;
    format::RingLosses visit_steps(const TakeRecord& take, const StepRange& steps) const;
    void visit_extremes(const TakeRecord& take, const StepRange& steps) const;
    void hold(OpenedSource opened, Symbols& symbols);

    const Run& run_;
    const Process& process_;
    Journals* journals_ = nullptr;
    std::vector<std::string>* problems_ = nullptr;  // of the reader
    const StructuredLog* log_ = nullptr;
    std::string role_;
    Symbols* symbols_ = nullptr;
    std::vector<std::byte> block_;  // of a journal, where there is no other record
    std::variant<OpenedSource, format::fr::Dump> bytes_;
    std::unique_ptr<CallSites> sites_;
    std::unique_ptr<MarkerPlaces> places_;
    mutable std::unique_ptr<Process> decoded_;  // by entry()
    mutable std::unordered_map<uint64_t, CommunicatorTexts> communicators_;
};

// Opens processes of a run, one after the other, in the same memory. The run must outlive it.
class RecordReader {
  public:
    RecordReader(const Run& run, Symbols& symbols);
    // All processes of the run and of its logs, by rank.
    const std::vector<const Process*>& processes() const { return processes_; }
    // Problems met so far in its journals and logs.
    const std::vector<std::string>& problems();
    // Visits the records of these ranks that can be read; of all ranks if none is given.
    template <typename Visit>
    void visit_all(const std::set<int>& ranks, const Visit& visit, const ReadProgress& progress = {}) {
        for (size_t i = 0; i < processes_.size(); ++i) {
            if (progress) {
                progress(i, processes_.size());
            }
            if (!ranks.empty() && !ranks.contains(processes_[i]->rank)) {
                continue;
            }
            if (const auto records = open(*processes_[i])) {
                visit(*records);
            }
        }
        if (progress) {
            progress(processes_.size(), processes_.size());
        }
    }
    // The same for records of our tracer.
    template <typename Visit>
    void visit_ours(const std::set<int>& ranks, const Visit& visit, const ReadProgress& progress = {}) {
        const auto visit_one = [&visit](const ProcessRecords& records) {
            if (!records.process().source.is_flight_recorder) {
                visit(records);
            }
        };
        visit_all(ranks, visit_one, progress);
    }
    // Valid until the next call. Error: it cannot be read, or a digest is all that is left, which does not hold all.
    Result<ProcessRecords> open(const Process& process);
    // Stacks of its threads. Notes say why there are none.
    ProcessStacks stacks(const Process& process);

  private:
    void add_log(const std::string& path);

    const Run& run_;
    Symbols& symbols_;
    Journals journals_;
    std::vector<Process> logged_;
    std::map<std::string, StructuredLog> logs_;  // by path
    bool has_roles_ = false;
    std::vector<std::string> log_problems_, problems_;
    std::vector<const Process*> processes_;
    ImageBuffer memory_;
    FlightRecorderScratch scratch_;
};

// The fields of records.def, for each of the records above.
template <typename Record>
Json json_of(const Record& record);
// The n-th of them (record_fields.h); null where the record is without.
template <typename Record>
SqlValue field_of(const Record& record, size_t n);

}  // namespace titan::analyzer
