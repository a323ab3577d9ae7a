#include "tables.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "call_order.h"
#include "diagnose.h"
#include "host/words.h"
#include "layout.h"
#include "parts.h"
#include "phases.h"
#include "rank_state.h"
#include "record_fields.h"
#include "report_parts.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

// --- records

std::vector<SqlColumn> columns_of(RecordKind kind) {
    std::vector<SqlColumn> columns;
    for (const RecordField& field : record_fields()) {
        if (field.kind == kind) {
            columns.push_back({field.key, field.type, field.unit, field.meaning});
        }
    }
    return columns;
}

// A block for each process.
class ProcessTable : public SqlTable {
  public:
    using SqlTable::SqlTable;
    size_t blocks() const override { return source().processes().size(); }
    std::optional<int> rank_of(size_t block) const override { return source().processes()[block]->rank; }

    ProcessTable(SqlSource& source, std::string name, std::string meaning, std::vector<SqlColumn> columns)
        : SqlTable(std::move(name), std::move(meaning), std::move(columns)), source_(source) {}

  protected:
    SqlSource& source() const { return source_; }

  private:
    SqlSource& source_;
};

template <RecordKind kind>
class RecordsTable : public ProcessTable {
  public:
    RecordsTable(SqlSource& source, const RecordTable& table)
        : ProcessTable(source, table.name, table.meaning, columns_of(kind)) {}

    // PyTorch's calls are told where ours are.
    void read(size_t block, const RowSteps& steps, RowSink& sink) const override {
        source().visit(block, [&](const ProcessRecords& records) {
            const auto take = [&sink]<typename Record>(const Record& record) {
                if constexpr (Record::kKind == kind) {
                    sink.add([&record](size_t column) { return field_of(record, column); });
                }
            };
            records.each(kind == RecordKind::kTorchCall ? RecordKind::kCollective : kind, take, steps);
        });
    }
};

// --- what a run is made of

template <typename Row>
struct Column {
    SqlColumn column;
    std::function<SqlValue(const Row&)> value;
};

template <typename Row>
std::vector<SqlColumn> columns_of(const std::vector<Column<Row>>& all) {
    std::vector<SqlColumn> columns;
    std::transform(all.begin(), all.end(), std::back_inserter(columns), [](const auto& one) { return one.column; });
    return columns;
}

// A table of values of one type, which `visit` passes one by one.
template <typename Row>
class ListTable : public SqlTable {
  public:
    using Tell = std::function<void(const Row&)>;
    ListTable(std::string name, std::string meaning, std::vector<Column<Row>> columns,
              std::function<void(const Tell&)> visit, bool needs_histories = false)
        : SqlTable(std::move(name), std::move(meaning), columns_of(columns)),
          columns_(std::move(columns)),
          visit_(std::move(visit)),
          needs_histories_(needs_histories) {}

    bool needs_histories() const override { return needs_histories_; }

    void read(size_t, const RowSteps&, RowSink& sink) const override {
        visit_([&](const Row& row) { sink.add([&](size_t column) { return columns_[column].value(row); }); });
    }

  private:
    std::vector<Column<Row>> columns_;
    std::function<void(const Tell&)> visit_;
    bool needs_histories_;
};

SqlValue moment_or_null(int64_t moment_ns) { return moment_ns == 0 ? SqlValue() : SqlValue(moment_ns); }
SqlValue number_unless(int64_t value, int64_t unknown) { return value == unknown ? SqlValue() : SqlValue(value); }
SqlValue text_or_null(std::string text) { return text.empty() ? SqlValue() : SqlValue(std::move(text)); }

std::unique_ptr<SqlTable> ranks_table(SqlSource& source) {
    const std::vector<Column<Process>> columns = {
        {{"rank", "number", "", "global rank, -1 unknown"}, [](const Process& p) { return p.rank; }},
        {{"role", "text", "", "what the program says that it is (label \"role\"), empty: nothing"},
         [](const Process& p) { return printable(p.role()); }},
        {{"host", "text", "", "its node"}, [](const Process& p) { return printable(p.host); }},
        {{"pid", "number", "", "0 unknown"}, [](const Process& p) { return p.pid; }},
        {{"attempt", "number", "", "of the run, from 0"}, [](const Process& p) { return p.attempt; }},
        {{"place", "text", "", "in the job's grid: \"tp 1, dp 3\""},
         [&source](const Process& p) {
             const std::shared_ptr<const Layout>& layout = source.run().layout;
             return layout == nullptr ? std::string() : layout->place_text(p.rank);
         }},
        {{"status", "text", "", "alive, exited, crashed ..., as far as is known"},
         [](const Process& p) { return status_of(p); }},
        {{"state", "text", "", "what it does, in words"},
         [&source](const Process& p) { return rank_state(source.run(), p); }},
        {{"step", "number", "", "training step, -1 before the first"}, [](const Process& p) { return p.step; }},
        {{"started_realtime_ns", "number or null", "ns since 1970", "the recorder began"},
         [](const Process& p) { return moment_or_null(p.started_ns); }},
        {{"newest_realtime_ns", "number or null", "ns since 1970", "the newest thing that it is known to have done"},
         [](const Process& p) { return moment_or_null(newest_moment_ns(p)); }},
        {{"recorder", "text", "", "dump, ring, journal, digest or flight_recorder (PyTorch's)"},
         [](const Process& p) { return name_of(p.source); }},
        {{"file", "text", "", "name of the file"}, [](const Process& p) { return printable(p.source.label); }},
    };
    return std::make_unique<ListTable<Process>>(
        "ranks", "Processes with a record", columns,
        [&source](const ListTable<Process>::Tell& tell) {
            for (const Process* process : source.processes()) {
                tell(*process);
            }
        },
        true);
}

std::unique_ptr<SqlTable> communicators_table(SqlSource& source) {
    const std::vector<Column<Communicator>> columns = {
        {{"communicator", "text", "", "id, equal on all members"}, [](const Communicator& c) { return id_text(c.id); }},
        {{"name", "text", "", "its name, or the start of its id"},
         [](const Communicator& c) { return c.name.empty() ? id_text(c.id).substr(0, 8) : printable(c.name); }},
        {{"role", "text", "", "of all communicators that do the same: \"dp\""},
         [](const Communicator& c) { return role_text(c); }},
        {{"size", "number or null", "ranks", ""}, [](const Communicator& c) { return number_unless(c.size, -1); }},
        {{"made_by", "text", "", "the call that made it"}, [](const Communicator& c) { return op_text(c.origin); }},
        {{"parent", "text or null", "", "id of the communicator that it was split from"},
         [](const Communicator& c) { return text_or_null(c.parent_id == 0 ? "" : id_text(c.parent_id)); }},
    };
    return std::make_unique<ListTable<Communicator>>("communicators", "Communicators of NCCL, and process groups",
                                                     columns, [&source](const ListTable<Communicator>::Tell& tell) {
                                                         for (const Communicator& one : source.run().communicators) {
                                                             tell(one);
                                                         }
                                                     });
}

struct MemberOf {
    const Communicator* communicator;
    int comm_rank;
    int rank;
};

std::unique_ptr<SqlTable> members_table(SqlSource& source) {
    const std::vector<Column<MemberOf>> columns = {
        {{"communicator", "text", "", "id"}, [](const MemberOf& m) { return id_text(m.communicator->id); }},
        {{"comm_rank", "number", "", "rank in the communicator"}, [](const MemberOf& m) { return m.comm_rank; }},
        {{"rank", "number or null", "", "global rank"}, [](const MemberOf& m) { return number_unless(m.rank, -1); }},
    };
    return std::make_unique<ListTable<MemberOf>>("members", "Members of communicators", columns,
                                                 [&source](const ListTable<MemberOf>::Tell& tell) {
                                                     const Run& run = source.run();
                                                     for (const Communicator& one : run.communicators) {
                                                         for (int member = 0; member < one.size; ++member) {
                                                             tell({&one, member, run.global_rank(one, member)});
                                                         }
                                                     }
                                                 });
}

std::unique_ptr<SqlTable> findings_table(SqlSource& source) {
    const std::vector<Column<Finding>> columns = {
        {{"kind", "text", "", "as in docs/reference/findings.md"}, [](const Finding& f) { return name_of(f.kind); }},
        {{"confidence", "text", "", "certain, likely or possible"},
         [](const Finding& f) { return name_of(f.confidence); }},
        {{"ranks", "list", "", "the guilty ones"}, [](const Finding& f) { return Json(f.ranks); }},
        {{"victims", "list", "", "ranks that wait because of them"}, [](const Finding& f) { return Json(f.victims); }},
        {{"communicator", "text or null", "", "id"},
         [&source](const Finding& f) {
             const Run& run = source.run();
             return f.communicator < run.communicators.size() ? SqlValue(id_text(run.communicators[f.communicator].id))
                                                              : SqlValue();
         }},
        {{"seq", "number or null", "", "of the call that it is about"},
         [](const Finding& f) { return f.sequence == kNoSequence ? SqlValue() : SqlValue(f.sequence); }},
        {{"op", "text or null", "", "its operation"}, [](const Finding& f) { return text_or_null(f.op); }},
        {{"hangs", "boolean", "", "ranks wait because of it"}, [](const Finding& f) { return f.hangs; }},
        {{"cost_share", "real number or null", "", "of slow jobs: the share of a step that it costs"},
         [](const Finding& f) { return f.cost_share > 0 ? SqlValue(f.cost_share) : SqlValue(); }},
        {{"summary", "text", "", "in words"}, [](const Finding& f) { return f.summary.text(); }},
        {{"remedy", "text", "", "what to do"}, [](const Finding& f) { return std::string(f.remedy()); }},
    };
    // Once, however often a query comes back to it.
    const auto diagnosis = std::make_shared<std::optional<Diagnosis>>();
    return std::make_unique<ListTable<Finding>>(
        "findings", "The findings of `titan-analyze`, the worst first", columns,
        [&source, diagnosis](const ListTable<Finding>::Tell& tell) {
            if (!*diagnosis) {
                *diagnosis = diagnose(source.run());
            }
            std::for_each((*diagnosis)->findings.begin(), (*diagnosis)->findings.end(), tell);
        },
        true);
}

// --- parts

struct PartOf {
    const Part& part;
    int rank;
};

SqlValue known_time(const PartOf& p, bool of_that_kind) { return of_that_kind ? SqlValue(p.part.value) : SqlValue(); }

const std::vector<Column<PartOf>>& part_columns() {
    static const std::vector<Column<PartOf>> columns = {
        {{"rank", "number", "", "global rank, -1 unknown"}, [](const PartOf& p) { return p.rank; }},
        {{"role", "text", "", "where ranks count within roles: the role of the rank"},
         [](const PartOf& p) { return std::string_view(p.part.role); }},
        {{"kind", "text", "",
          "step, span, GPU, host or metric; GPU: a call of NCCL that was seen to run, host: another"},
         [](const PartOf& p) { return name_of(p.part.kind); }},
        {{"name", "text", "", "\"step\", of the span or metric, or \"all_reduce on dp\""},
         [](const PartOf& p) { return std::string_view(p.part.name); }},
        {{"phase", "text or null", "", "spans: the part of a job that this is (docs/reference/records.md)"},
         [](const PartOf& p) {
             return text_or_null(p.part.kind == PartKind::kSpan ? std::string(phase_of(p.part.name)) : "");
         }},
        {{"step", "number", "", "training step, -1 before the first, or not known"},
         [](const PartOf& p) { return p.part.step; }},
        {{"begin_realtime_ns", "number", "ns since 1970", "it began"}, [](const PartOf& p) { return p.part.begin_ns; }},
        {{"duration_ns", "real number or null", "ns", "from begin to end"},
         [](const PartOf& p) { return known_time(p, p.part.kind != PartKind::kMetric); }},
        {{"host_ns", "real number or null", "ns",
          "calls: how long the host was inside, where no GPU was seen to run it"},
         [](const PartOf& p) { return known_time(p, p.part.kind == PartKind::kHostCall); }},
        {{"gpu_ns", "real number or null", "ns", "calls: how long they were seen to run"},
         [](const PartOf& p) { return known_time(p, p.part.kind == PartKind::kGpuCall); }},
        {{"value", "real number or null", "", "metrics: as the program gave it; one that is no number is null"},
         [](const PartOf& p) {
             return p.part.kind == PartKind::kMetric ? SqlValue(p.part.value.value_or(0)) : SqlValue();
         }},
        {{"op", "text or null", "", "calls: the operation"},
         [](const PartOf& p) { return text_or_null(p.part.is_call() ? op_text(p.part.op) : ""); }},
        {{"communicator", "text or null", "", "calls: its id"},
         [](const PartOf& p) {
             return text_or_null(p.part.communicator == nullptr ? "" : id_text(p.part.communicator->id));
         }},
        {{"bytes", "number", "bytes", "calls: as passed"}, [](const PartOf& p) { return p.part.bytes; }},
        {{"bus_bytes", "real number", "bytes", "calls: by nccl-tests' factor"},
         [](const PartOf& p) { return p.part.bus_bytes; }},
    };
    return columns;
}

class PartsTable : public ProcessTable {
  public:
    explicit PartsTable(SqlSource& source)
        : ProcessTable(source, "parts", "Finished steps, spans, metrics and calls of each rank, from any recorder",
                       columns_of(part_columns())) {}

    bool needs_histories() const override { return true; }  // for steps that are not marked

    // What is of no step is told where all steps are wanted.
    void read(size_t block, const RowSteps& steps, RowSink& sink) const override {
        const WantedSteps wanted{steps && steps->first > format::kNoStep ? steps : std::nullopt};
        source().visit(block, [&](const ProcessRecords& records) {
            visit_parts(source().run(), records, wanted, [&](const Part& part) {
                const PartOf row{part, records.rank()};
                sink.add([&row](size_t column) { return part_columns()[column].value(row); });
            });
        });
    }
};

}  // namespace

void SqlSource::load(bool with_histories) {
    if (loaded_ == nullptr || (with_histories && !has_histories_)) {
        loaded_ = nullptr;
        loaded_ = std::make_unique<Loaded>(load_(!with_histories));
        has_histories_ = with_histories;
    }
}

std::vector<std::string> SqlSource::problems() {
    std::vector<std::string> all(unread_.begin(), unread_.end());
    if (loaded_ != nullptr) {
        const std::vector<std::string>& others = loaded_->reader.problems();
        all.insert(all.end(), others.begin(), others.end());
    }
    return all;
}

std::vector<std::unique_ptr<SqlTable>> tables_of(SqlSource& source) {
    std::vector<std::unique_ptr<SqlTable>> tables;
    tables.push_back(ranks_table(source));
    tables.push_back(communicators_table(source));
    tables.push_back(members_table(source));
    tables.push_back(findings_table(source));
    tables.push_back(std::make_unique<PartsTable>(source));
    for (const RecordTable& table : record_tables()) {
        switch (table.kind) {
#define RECORD(kind, option, meaning)                                                      \
    case RecordKind::kind:                                                                 \
        tables.push_back(std::make_unique<RecordsTable<RecordKind::kind>>(source, table)); \
        break;
#define FIELD(kind, key, type, unit, meaning, value)
#include "records.def"
        }
    }
    return tables;
}

}  // namespace titan::analyzer
