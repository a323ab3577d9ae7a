// The log of torchcomms' ClogHook: one file a rank, a line for each event, flushed at once.
//
//   V|1|base_timestamp=1795336072.123
//   new_comm|comm=world|rank=3|world_size=8
//   C1|sig|all_reduce|in_count=1024|out_count=1024|dtype=f32|red_op=sum|async_op=f|comm=world
//   C1|Q|work_id=1|+0.120                    enqueued; then S started, E ended, W waited for, where these are logged
//   G7|C1|Q|work_id=2|+0.300                 captured into a graph; G7|R1|C1|S|+0.400 in its first replay
//   WARN|comm=world|leaked work_id=2|corr_id=1|pending_events=E
//
// C1 is a kind of call, equal in all arguments; which of its calls started or ended, a line does not say: they do so in
// order. Facts: comms/torchcomms/hooks/clog and hooks/common/SignatureBuilder.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "host/words.h"
#include "readers.h"

namespace titan::analyzer {
namespace {

constexpr std::string_view kBegin = "V|";
constexpr std::string_view kBase = "|base_timestamp=";
constexpr std::string_view kVersion = "1";
constexpr size_t kMostKinds = 65536;
constexpr size_t kMostPending = 65536;  // calls
constexpr size_t kMostCommunicators = 16;
constexpr size_t kMostWarnings = 2;
constexpr size_t kMostFieldBytes = 64;
// Threads that log at the same time swap lines; a file of which the middle was left out jumps.
constexpr int64_t kSwapped = 1024;

struct Fields {
    explicit Fields(std::string_view line) : rest(line) {}
    std::string_view next() {
        const size_t end = std::min(rest.find('|'), rest.size());
        const std::string_view field = rest.substr(0, end);
        rest = end < rest.size() ? rest.substr(end + 1) : std::string_view();
        return field;
    }
    std::string_view rest;
};

// "C12" with the letter 'C' is 12; -1 for anything else.
int64_t number_after(std::string_view field, std::string_view before) {
    int64_t number = -1;
    if (!field.starts_with(before)) {
        return -1;
    }
    field.remove_prefix(before.size());
    const auto [end, failed] = std::from_chars(field.data(), field.data() + field.size(), number);
    return failed == std::errc() && end == field.data() + field.size() && number >= 0 ? number : -1;
}

// "12.345" in nanoseconds, -1 where it is no such time.
int64_t time_of(std::string_view text) {
    constexpr double kMostS = 4e9;
    double seconds = -1;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    return failed == std::errc() && end == text.data() + text.size() && seconds >= 0 && seconds < kMostS
               ? static_cast<int64_t>(seconds * 1e9)
               : -1;
}

struct Enqueued {
    int64_t at_ns = 0;    // since the log began
    uint64_t number = 0;  // n-th call of its communicator
    bool started = false;
};

struct Kind {
    std::string what;  // "all_reduce (1,024 f32, sum)"
    std::string communicator;
    std::deque<Enqueued> pending;
};

struct Communicator {
    uint64_t calls = 0;
    const Kind* newest = nullptr;
    Enqueued last;
};

struct GraphReplay {
    int64_t number = -1;
    uint64_t started = 0;
    uint64_t ended = 0;
};

class Log {
  public:
    void read(std::string_view line) {
        Fields fields(line);
        const std::string_view first = fields.next();
        if (first == "new_comm") {
            new_communicator(fields);
        } else if (first == "WARN" && warnings_.size() < kMostWarnings) {
            warnings_.emplace_back(fields.rest.substr(0, 200));
        } else if (const int64_t graph = number_after(first, "G"); graph >= 0) {
            of_graph(graph, fields);
        } else if (const int64_t kind = number_after(first, "C"); kind >= 0) {
            const std::string_view event = fields.next();
            event == "sig" ? signature(kind, fields) : happened(kind, event, fields);
        }
    }

    void tell(int64_t base_ns, std::vector<Testimony>& into) const {
        Testimony said;
        said.comm_rank = rank_;
        said.comm_size = size_;
        said.time_ns = base_ns > 0 ? base_ns + newest_ns_ : 0;
        const auto add = [&](const std::string& text) {
            if (into.size() < kMaxTestimonies) {
                said.text = (size_ > 0 ? fmt::format("rank {} of {}: ", rank_, size_) : std::string()) + text;
                into.push_back(said);
            }
        };
        for (const bool pending : {true, false}) {
            for (const auto& [name, communicator] : communicators_) {
                const auto [kind, oldest] = oldest_pending(name);
                if (communicator.newest != nullptr && pending == (oldest != nullptr && whole())) {
                    add(pending ? pending_text(name, *kind, *oldest) : last_text(name, communicator));
                }
            }
        }
        for (const auto& [graph, replay] : replays_) {
            if (replay.started > replay.ended) {
                add(fmt::format("replay {} of graph {} has started {} of its calls and ended {}", replay.number, graph,
                                replay.started, replay.ended));
            }
        }
        for (const std::string& warning : warnings_) {
            add("WARN " + warning);
        }
    }

  private:
    bool whole() const { return ends_logged_ && !cut_; }

    void new_communicator(Fields& fields) {
        int32_t rank = -1;
        int32_t size = -1;
        while (!fields.rest.empty()) {
            std::string_view field = fields.next();
            if (field.starts_with("rank=")) {
                field.remove_prefix(5);
                rank = take_rank(field);
            } else if (field.starts_with("world_size=")) {
                field.remove_prefix(11);
                size = take_rank(field);
            }
        }
        if (rank >= 0 && rank < size && size > size_) {
            rank_ = rank;
            size_ = size;
        }
    }

    // "all_reduce|in_count=1024|out_count=1024|dtype=f32|red_op=sum|async_op=f|comm=world"
    void signature(int64_t number, Fields& fields) {
        if (kinds_.size() >= kMostKinds) {
            return;
        }
        Kind kind;
        const std::string_view op = fields.next().substr(0, kMostFieldBytes);
        std::map<std::string_view, std::string_view> value;
        while (!fields.rest.empty() && value.size() < 16) {
            const std::string_view field = fields.next();
            const size_t equals = std::min(field.find('='), field.size());
            value[field.substr(0, equals)] =
                field.substr(std::min(equals + 1, field.size())).substr(0, kMostFieldBytes);
        }
        std::vector<std::string> words;
        for (const std::string_view key : {"in_count", "out_count"}) {
            const int64_t count = number_after(value[key], "");
            if (words.empty() && count > 0) {
                words.push_back(fmt::format("{} {}", grouped_digits(static_cast<uint64_t>(count)), value["dtype"]));
            }
        }
        for (const std::string_view key : {"in_splits", "out_splits", "in_counts", "out_counts", "root", "peer"}) {
            if (!value[key].empty()) {
                words.push_back(fmt::format("{} {}", key, value[key]));
            }
        }
        if (!value["red_op"].empty()) {
            words.emplace_back(value["red_op"]);
        }
        kind.what = words.empty() ? std::string(op) : fmt::format("{} ({})", op, fmt::join(words, ", "));
        kind.communicator = value["comm"];
        kinds_.try_emplace(number, std::move(kind));
    }

    void happened(int64_t number, std::string_view event, Fields& fields) {
        const auto found = kinds_.find(number);
        if (found == kinds_.end()) {
            return;
        }
        Kind& kind = found->second;
        const int64_t work = event == "Q" ? number_after(fields.next(), "work_id=") : -1;
        const std::string_view stamp = fields.next();
        const int64_t at_ns = stamp.starts_with("+") ? time_of(stamp.substr(1)) : -1;
        if (at_ns < 0) {
            return;  // the line at which the process was killed
        }
        newest_ns_ = std::max(newest_ns_, at_ns);
        if (event == "Q" && work >= 0) {
            enqueue(kind, work, at_ns);
        } else if (event == "S" || event == "E") {
            ends_logged_ = true;
            const auto next = std::ranges::find_if(kind.pending, [](const Enqueued& call) { return !call.started; });
            if (event == "S" && next != kind.pending.end()) {
                next->started = true;
            } else if (event == "E" && !kind.pending.empty()) {
                kind.pending.pop_front();
                --pending_;
            }
        }
    }

    void enqueue(Kind& kind, int64_t work, int64_t at_ns) {
        cut_ |= work > newest_work_ + kSwapped || pending_ >= kMostPending;
        newest_work_ = std::max(newest_work_, work);
        if (communicators_.size() >= kMostCommunicators && !communicators_.contains(kind.communicator)) {
            return;
        }
        Communicator& communicator = communicators_[kind.communicator];
        communicator.newest = &kind;
        communicator.last = {at_ns, ++communicator.calls, false};
        if (pending_ < kMostPending) {
            kind.pending.push_back(communicator.last);
            ++pending_;
        }
    }

    void of_graph(int64_t graph, Fields& fields) {
        const int64_t number = number_after(fields.next(), "R");
        fields.next();  // the kind of call
        const std::string_view event = fields.next();
        if (number < 0 || (replays_.size() >= kMostCommunicators && !replays_.contains(graph))) {
            return;
        }
        GraphReplay& replay = replays_[graph];
        if (number > replay.number) {
            replay = {number, 0, 0};
        }
        replay.started += number == replay.number && event == "S" ? 1 : 0;
        replay.ended += number == replay.number && event == "E" ? 1 : 0;
    }

    std::pair<const Kind*, const Enqueued*> oldest_pending(std::string_view communicator) const {
        std::pair<const Kind*, const Enqueued*> oldest{nullptr, nullptr};
        for (const auto& [number, kind] : kinds_) {
            if (kind.communicator == communicator && !kind.pending.empty() &&
                (oldest.second == nullptr || kind.pending.front().number < oldest.second->number)) {
                oldest = {&kind, &kind.pending.front()};
            }
        }
        return oldest;
    }

    static std::string call_words(std::string_view communicator, const Kind& kind, const Enqueued& call) {
        return fmt::format("{} on {}, its call {} there, enqueued {} after the log began", kind.what, communicator,
                           grouped_digits(call.number), duration_text(call.at_ns));
    }

    static std::string pending_text(std::string_view communicator, const Kind& kind, const Enqueued& call) {
        return call_words(communicator, kind, call) +
               (call.started ? ", has started and not ended" : ", has not started");
    }

    std::string last_text(std::string_view communicator, const Communicator& of) const {
        return "its last call is " + call_words(communicator, *of.newest, of.last) +
               (cut_           ? ""
                : ends_logged_ ? "; all have ended"
                               : "; ends are not logged (events=[\"ALL\"] logs them)");
    }

    std::map<int64_t, Kind> kinds_;  // by correlation id
    std::map<std::string, Communicator, std::less<>> communicators_;
    std::map<int64_t, GraphReplay> replays_;  // by graph: the newest
    std::vector<std::string> warnings_;
    size_t pending_ = 0;
    int64_t newest_ns_ = 0;
    int64_t newest_work_ = 0;
    int32_t rank_ = -1;
    int32_t size_ = -1;
    bool ends_logged_ = false;
    bool cut_ = false;  // a part of the calls is not in the text
};

}  // namespace

bool is_torchcomms_clog(const WitnessFile& file) {
    const std::string_view first = file.text.substr(0, file.text.find('\n'));
    return first.starts_with(kBegin) && has(first, kBase);
}

void read_torchcomms_clog(const WitnessFile& file, std::vector<Testimony>& into) {
    Lines lines(file.text);
    std::string_view line;
    lines.next(line);
    Fields header(line);
    header.next();
    if (const std::string_view version = header.next(); version != kVersion) {
        Testimony said;
        said.claim = Claim::kUnread;
        said.text = fmt::format("its version {} is not known: not read", version.substr(0, kMostFieldBytes));
        into.push_back(std::move(said));
        return;
    }
    std::string_view base = header.next();
    take_until(base, "=");
    Log log;
    while (lines.next(line)) {
        log.read(line);
    }
    log.tell(time_of(base), into);
}

}  // namespace titan::analyzer
