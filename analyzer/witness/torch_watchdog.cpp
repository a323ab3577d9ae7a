// What the watchdogs of PyTorch's process groups, and of torchcomms, write into the logs of the ranks:
//
//   [rank1]:[E810 03:04:11.061727749 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeout:
//     WorkNCCL(SeqNum=78, OpType=BROADCAST, NumelIn=80, NumelOut=80, Timeout(ms)=600000) ran for 600016 milliseconds
//   [rank1]:[E810 03:04:11.063313477 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank 1]  failure
//   detected
//     by watchdog at work sequence id: 78 PG status: last enqueued work: 79, last completed work: 77
//   [rank3]:[E1127 11:52:20.358732190 ...] [TC][rank=3][name=0] Aborting process on rank 3 due to timeout - ...
//
// Who waited says so; who did not make the call says nothing of it, or that its newest call is an earlier one. So ranks
// that only left a traceback are named, too. PyTorch's words change from version to version: only those are asked for
// that all of them have.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <tuple>

#include "host/words.h"
#include "readers.h"
#include "torch_watchdog.h"
#include "tracebacks.h"

namespace titan::analyzer {
namespace {

constexpr std::string_view kTimedOut = "Watchdog caught collective operation timeout";
constexpr std::string_view kStuck = "watchdog got stuck for ";
constexpr std::string_view kEndsProcess = "watchdog detected operation timeout";
constexpr std::string_view kRemoteError = "remote process exit";
constexpr std::string_view kWords[] = {
    kTimedOut, kStuck, kEndsProcess, "ncclRemoteError", "timed out in blocking wait", "last completed ",
};
constexpr size_t kMostReports = 1024;
constexpr size_t kMostDetailBytes = 160;

// The process that wrote a line, as exactly as it says: the rank, or the rank on its node.
struct LineSpeaker {
    int32_t rank = -1;
    int32_t local_rank = -1;
    auto operator<=>(const LineSpeaker&) const = default;
};

struct WatchdogNote {
    WatchdogReport report;
    std::string detail;
    int64_t wall_s = 0;
    bool lost_a_peer = false;
};

// The number after `mark`, up to 64 bits.
std::optional<int64_t> watchdog_number(std::string_view line, std::string_view mark) {
    return take_until(line, mark) ? take_number<int64_t>(line) : std::nullopt;
}

// "[rank3]:", "[default3]:", or "[TC][rank=3]", wherever a launcher, Ray or a progress bar put it.
LineSpeaker speaker_of(std::string_view line) {
    LineSpeaker speaker;
    const auto in_brackets = [&](std::string_view mark) {
        std::string_view rest = line;
        int32_t number = -1;
        while (number < 0 && take_until(rest, mark)) {
            const int32_t claimed = take_rank(rest);
            number = rest.starts_with("]") ? claimed : -1;
        }
        return number;
    };
    speaker.rank = std::max(in_brackets("[rank"), in_brackets("[rank="));
    speaker.local_rank = speaker.rank < 0 ? in_brackets("[default") : -1;
    return speaker;
}

// "[PG ID 0 PG GUID 15(tp) Rank 1]" -> "15(tp)"; "[PG 0 (default_pg) Rank 1]", "[PG 0 Rank 1]"; "[name=0]".
std::optional<std::string> group_of(std::string_view line) {
    std::string_view rest = line;
    if (take_until(rest, "[PG ")) {
        const auto inside = take_until(rest, "]");
        std::string_view name = inside.value_or(std::string_view());
        if (const size_t rank = name.rfind(" Rank "); rank != std::string_view::npos) {
            name = name.substr(0, rank);
            take_until(name, "GUID ");
            std::string group(name.substr(0, kMostDetailBytes));
            std::erase(group, ' ');
            return group;
        }
    }
    rest = line;
    if (take_until(rest, "[TC]") && take_until(rest, "[name=")) {
        return std::string(take_until(rest, "]").value_or("").substr(0, kMostDetailBytes));
    }
    return std::nullopt;
}

// The rank in the group, which is that of the job in the group of all, and where no group is told.
int32_t rank_in_words(std::string_view line, const std::optional<std::string>& group) {
    if ((group && !is_default_group(*group)) || !take_until(line, "Rank ")) {
        return -1;
    }
    const int32_t rank = take_rank(line);
    return line.starts_with("]") ? rank : -1;
}

// "E810 03:04:11.06", "E1127 11:52:20": local time, in a year that nobody tells.
int64_t wall_of(std::string_view line) {
    for (const std::string_view mark : {"[E", "[W", "[I", "[F"}) {
        std::string_view rest = line;
        if (!take_until(rest, mark)) {
            continue;
        }
        const std::optional<int32_t> date = take_number(rest);
        const std::string_view clock = rest.substr(0, 9);
        if (date && *date > 100 && *date < 1232 && clock.size() == 9 && clock[3] == ':' && clock[6] == ':') {
            const auto digits = [&](size_t at) { return (clock[at] - '0') * 10 + (clock[at + 1] - '0'); };
            return seconds_of_year(*date / 100, *date % 100, digits(1) * 3600 + digits(4) * 60 + digits(7));
        }
    }
    return 0;
}

class WatchdogLog {
  public:
    void read(std::string_view line) {
        LineSpeaker speaker = speaker_of(line);
        const std::optional<std::string> group = group_of(line);
        speaker.rank = speaker.rank < 0 && speaker.local_rank < 0 ? rank_in_words(line, group) : speaker.rank;
        // An exception has more lines, and only the first has a prefix.
        const bool goes_on = speaker == LineSpeaker();
        speaker = goes_on ? last_ : speaker;
        last_ = speaker;
        if (speaker == LineSpeaker() || notes_.size() > kMostReports) {
            return;
        }
        read_timeout(line, speaker, group);
        read_counters(line, speaker, group);
        read_error(line, speaker);
        if (const auto stuck_s = watchdog_number(line, kStuck)) {
            WatchdogNote& note = notes_[{speaker, group.value_or("")}];
            note.report.stuck_s = std::max<int64_t>(note.report.stuck_s, *stuck_s);
        }
        if (has(line, kEndsProcess)) {
            WatchdogNote& note = notes_[{speaker, group.value_or("")}];
            note.report.timed_out = true;
            note.wall_s = note.wall_s == 0 ? wall_of(line) : note.wall_s;
        }
    }

    void tell(std::vector<Testimony>& into) {
        for (auto& [key, note] : unplaced_) {
            add(note, notes_[{std::get<0>(key), ""}]);
        }
        for (const auto& [key, note] : notes_) {
            const auto& [speaker, group] = key;
            Testimony said;
            said.rank = speaker.rank;
            said.local_rank = speaker.local_rank;
            said.wall_s = note.wall_s;
            said.lost_a_peer = note.lost_a_peer;
            said.watchdog = note.report;
            said.watchdog->group = group;
            said.text = fmt::format("{}: {}", who(speaker), words_of(*said.watchdog, note.detail));
            into.push_back(std::move(said));
        }
    }

    bool knows(const Traceback& traceback) const {
        return std::ranges::any_of(notes_, [&](const auto& one) {
            const LineSpeaker& speaker = one.first.first;
            return speaker.rank == traceback.rank && speaker.local_rank == traceback.local_rank;
        });
    }

    static std::string who(const LineSpeaker& speaker) {
        return speaker.rank >= 0 ? fmt::format("rank {}", speaker.rank)
                                 : fmt::format("local rank {}", speaker.local_rank);
    }

  private:
    static void add(const WatchdogNote& from, WatchdogNote& to) {
        to.report.timed_out |= from.report.timed_out;
        if (to.report.op.empty() || (from.report.number >= 0 && from.report.number < to.report.number)) {
            to.report.number = from.report.number;
            to.report.op = from.report.op;
            to.report.ran_ms = from.report.ran_ms;
        }
        to.wall_s = to.wall_s == 0 ? from.wall_s : to.wall_s;
    }

    void read_timeout(std::string_view line, const LineSpeaker& speaker, const std::optional<std::string>& group) {
        const bool begins = has(line, kTimedOut) || has(line, "timed out in blocking wait");
        std::string_view work = line;
        if (!(begins || expects_work_) || !take_until(work, "WorkNCCL(")) {
            expects_work_ = begins;  // somebody broke the line
            return;
        }
        expects_work_ = false;
        WatchdogNote note;
        note.report.timed_out = true;
        note.report.number = watchdog_number(work, "SeqNum=").value_or(-1);
        note.report.ran_ms = std::max<int64_t>(0, watchdog_number(work, " ran for ").value_or(0));
        note.wall_s = wall_of(line);
        if (take_until(work, "OpType=")) {
            note.report.op = work.substr(0, std::min<size_t>(work.find_first_of(",)"), 40));
        }
        if (group) {
            add(note, notes_[{speaker, *group}]);
            unplaced_.erase({speaker, note.report.number});
        } else {
            unplaced_[{speaker, note.report.number}] = note;  // the next line of the rank tells the group
        }
    }

    void read_counters(std::string_view line, const LineSpeaker& speaker, const std::optional<std::string>& group) {
        std::string_view rest = line;
        if (!take_until(rest, "ast enqueued ")) {
            return;
        }
        WatchdogNote& note = notes_[{speaker, group.value_or("")}];
        const std::optional<int64_t> enqueued = watchdog_number(rest, "work: ");
        note.report.enqueued = std::max(note.report.enqueued, enqueued.value_or(-1));
        note.report.counted |= enqueued.has_value();
        if (take_until(rest, "ast completed ")) {
            note.report.completed = std::max(note.report.completed, watchdog_number(rest, "work: ").value_or(-1));
        }
        for (const std::string_view mark : {"work sequence id: ", "watchdog at work: ", "Timeout at NCCL work: "}) {
            const auto number = watchdog_number(line, mark);
            const auto unplaced = number ? unplaced_.find({speaker, *number}) : unplaced_.end();
            if (unplaced != unplaced_.end()) {
                add(unplaced->second, note);
                unplaced_.erase(unplaced);
            }
        }
    }

    void read_error(std::string_view line, const LineSpeaker& speaker) {
        const bool remote = has(line, "ncclRemoteError") || has(line, kRemoteError);
        if (!remote && !expects_error_) {
            expects_error_ = in_error_ && has(line, "Last error:");
            return;
        }
        in_error_ = true;
        WatchdogNote& note = notes_[{speaker, ""}];
        note.lost_a_peer = true;
        if (expects_error_) {
            note.detail = without_spaces(line).substr(0, kMostDetailBytes);
            in_error_ = false;
        }
        expects_error_ = false;
    }

    static std::string words_of(const WatchdogReport& report, const std::string& detail) {
        std::string text;
        const auto add_words = [&](const std::string& words) { text += (text.empty() ? "" : "; ") + words; };
        const std::string on = report.group.empty() ? "" : " on " + group_name(report.group);
        if (report.timed_out && !report.op.empty()) {
            const std::string number = report.number < 0 ? "" : fmt::format(" #{}", report.number);
            add_words(fmt::format("{}{}{} timed out{}", report.op, number, on,
                                  report.ran_ms == 0 ? "" : " after " + duration_text(report.ran_ms * 1'000'000)));
        } else if (report.timed_out) {
            add_words(fmt::format("a call{} timed out, and the watchdog ends the process", on));
        }
        if (report.counted) {
            add_words(fmt::format("its newest call{} is #{}", report.timed_out ? "" : on, report.enqueued));
        }
        if (report.stuck_s != 0) {
            add_words(
                fmt::format("its watchdog got stuck for {} s: a call of CUDA or NCCL does not return, or another "
                            "thread holds the GIL",
                            report.stuck_s));
        }
        if (!detail.empty() || text.empty()) {
            add_words("NCCL lost a peer or the network" + (detail.empty() ? std::string() : ": " + detail));
        }
        return text;
    }

    std::map<std::pair<LineSpeaker, std::string>, WatchdogNote> notes_;  // by speaker and group
    std::map<std::pair<LineSpeaker, int64_t>, WatchdogNote> unplaced_;   // by speaker and number: of which group?
    LineSpeaker last_;
    bool expects_work_ = false;
    bool expects_error_ = false;
    bool in_error_ = false;
};

bool has_watchdog_words(std::string_view text) {
    return std::ranges::any_of(kWords, [&](std::string_view words) { return has(text, words); });
}

}  // namespace

int64_t seconds_of_year(int month, int day, int second_of_day) {
    std::tm time{};
    time.tm_year = 72;  // a leap year
    time.tm_mon = month - 1;
    time.tm_mday = day;
    return ::timegm(&time) + second_of_day;
}

bool is_default_group(std::string_view group) { return group.empty() || group == "0" || has(group, "default_pg"); }

std::string group_name(std::string_view group) {
    std::string_view rest = group;
    const auto number = take_until(rest, "(");
    if (!number || rest.size() < 2) {
        return group == "0" ? "the group of all" : fmt::format("group {}", group.substr(0, group.find('(')));
    }
    return std::string(rest.substr(0, rest.find(')')));
}

bool is_torch_watchdog(const WitnessFile& file) {
    // Without the watchdog's words, an exception that a rank ended with: who has no such words tells as much.
    return has_watchdog_words(file.text) ||
           (has(file.text, "[rank") && has(file.text, "]: Traceback (most") && !is_torchrun_log(file));
}

void read_torch_watchdog(const WitnessFile& file, std::vector<Testimony>& into) {
    WatchdogLog log;
    Lines lines(file.text);
    for (std::string_view line; lines.next(line);) {
        log.read(line);
    }
    log.tell(into);
    for (const Traceback& traceback : tracebacks_in(file.text)) {
        const bool has_speaker = traceback.rank >= 0 || traceback.local_rank >= 0;
        if (!has_speaker || log.knows(traceback) || into.size() >= kMaxTestimonies) {
            continue;
        }
        Testimony said;
        said.rank = traceback.rank;
        said.local_rank = traceback.local_rank;
        said.message = traceback.message;
        said.text = fmt::format("{}: {}{}{}", WatchdogLog::who({said.rank, said.local_rank}), said.message,
                                traceback.place.empty() ? "" : ", at ", traceback.place);
        into.push_back(std::move(said));
    }
}

void settle_ends_by_watchdogs(std::vector<Testimony>& all) {
    int64_t first_s = 0;
    std::vector<int32_t> ranks;
    for (const Testimony& said : all) {
        if (said.watchdog && (said.watchdog->timed_out || said.watchdog->stuck_s != 0)) {
            ranks.push_back(said.rank);
            first_s = first_s == 0 || (said.wall_s != 0 && said.wall_s < first_s) ? said.wall_s : first_s;
        }
    }
    for (Testimony& said : all) {
        if (said.claim != Claim::kEnded || said.watchdog || said.order == EndOrder::kAfterOthers) {
            continue;
        }
        const auto wall = static_cast<std::time_t>(said.wall_s);
        std::tm time{};
        const bool is_later = first_s != 0 && said.wall_s != 0 && ::gmtime_r(&wall, &time) != nullptr &&
                              seconds_of_year(time.tm_mon + 1, time.tm_mday,
                                              time.tm_hour * 3600 + time.tm_min * 60 + time.tm_sec) >= first_s;
        const bool by_own = said.signal == SIGABRT && std::ranges::find(ranks, said.rank) != ranks.end();
        if (by_own || (is_later && !ranks.empty())) {
            said.order = EndOrder::kAfterOthers;
            said.text += by_own ? "; its own watchdog ended it" : "; a watchdog had found a timeout by then";
        }
    }
}

// --- The periodic dumps of torch.distributed.debug (PyTorch 2.14 and later), NAME_YYYYMMDD_HHMMSS.txt of all ranks
// together:
//
//   === Rank 3: http://node-3:25999/handler/dump_traceback? ===
//   Thread 0x00007f1e (most recent call first):
//     File "/w/train.py", line 142 in step
//   === Rank 4: http://node-3:26000/handler/dump_traceback? ===
//   Error: 503
//
// Stacks (`stacks`, `pyspy_dump`) tell where each rank stood, and any of them which rank did not answer. The tables of
// `fr_trace` hold less than the Flight Recorder files that they were made of.

namespace {

// One rank's part of the file.
struct RankPart {
    Testimony said;
    std::string place;       // innermost line of the program of the thread that was read last, the main thread
    bool in_main = false;    // py-spy names it
    bool has_place = false;  // for the thread that is being read
};

bool is_library(std::string_view file) {
    constexpr std::string_view kParts[] = {"/torch/", "/lib/python", "<frozen", "<string>"};
    return std::ranges::any_of(kParts, [&](std::string_view part) { return has(file, part); });
}

// "=== Rank 3: http://node-3:25999/handler/dump_traceback? ==="
bool begins_rank(std::string_view line, RankPart& part) {
    if (!line.starts_with("=== Rank ") || !line.ends_with(" ===") || !has(line, "/handler/")) {
        return false;
    }
    line.remove_prefix(9);
    part = RankPart();
    part.said.rank = take_rank(line);
    return true;
}

void note_silence(int32_t rank, std::string_view why, std::vector<Testimony>& into) {
    Testimony said;
    said.rank = rank;
    said.claim = Claim::kSilent;
    said.text = fmt::format("rank {} did not answer: {}", rank, why.substr(0, 120));
    into.push_back(std::move(said));
}

// faulthandler: File "/w/train.py", line 142 in step; py-spy: step (train.py:142).
std::string place_of(std::string_view line) {
    std::string_view rest = line;
    if (take_until(rest, "File \"")) {
        const auto file = take_until(rest, "\", line ");
        const auto number = file && !is_library(*file) ? take_number(rest) : std::nullopt;
        return number && rest.starts_with(" in ") ? fmt::format("{}:{}{}", *file, *number, rest.substr(0, 80)) : "";
    }
    const std::string_view name = without_spaces(line.substr(0, line.find('(')));
    rest = line;
    if (!line.starts_with("    ") || name.empty() || !take_until(rest, "(")) {
        return "";
    }
    const auto place = take_until(rest, ")");
    return place && place->find(".py:") != std::string_view::npos && !is_library("/" + std::string(*place))
               ? fmt::format("{} in {}", *place, name.substr(0, 80))
               : "";
}

void read_stack_line(std::string_view line, RankPart& part) {
    if (line.find("Thread ") == 0 || line.find("Current thread ") == 0) {
        part.has_place = part.in_main && !part.place.empty();
        part.in_main = part.has_place || has(line, "\"MainThread\"");
    } else if (!part.has_place) {
        if (std::string place = place_of(line); !place.empty()) {
            part.place = std::move(place);
            part.has_place = true;
        }
    }
}

void finish_rank(RankPart& part, std::vector<Testimony>& into) {
    if (part.said.rank >= 0 && !part.place.empty() && into.size() < kMaxTestimonies) {
        part.said.text = fmt::format("rank {} was at {}", part.said.rank, part.place);
        into.push_back(std::move(part.said));
    }
    part = RankPart();
}

}  // namespace

bool is_torch_debug(const WitnessFile& file) {
    return (has(file.text, "=== Rank ") && has(file.text, "/handler/")) || file.text.starts_with("=== FR Trace") ||
           file.text.starts_with("PARTIAL DATA: ");
}

void read_torch_debug(const WitnessFile& file, std::vector<Testimony>& into) {
    if (has(file.text, "=== FR Trace")) {
        Testimony said;
        said.claim = Claim::kUnread;
        said.text =
            "its Flight Recorder tables are not read: gather the ranks' own files (TORCH_FR_DUMP_TEMP_FILE), or JSON";
        into.push_back(std::move(said));
    }
    RankPart part;
    bool partial = false;
    Lines lines(file.text);
    for (std::string_view line; lines.next(line) && into.size() < kMaxTestimonies;) {
        RankPart next;
        if (begins_rank(line, next)) {
            finish_rank(part, into);
            part = std::move(next);
            partial = false;
        } else if (line.starts_with("PARTIAL DATA: ")) {
            partial = true;
        } else if (std::string_view rest = line; partial && line.starts_with("  Rank ")) {
            rest.remove_prefix(7);
            const int32_t rank = take_rank(rest);
            if (rank >= 0 && rest.starts_with(": ")) {
                note_silence(rank, rest.substr(2), into);
            }
        } else if (part.said.rank >= 0 && line.starts_with("Error: ")) {
            note_silence(part.said.rank, "HTTP status " + std::string(line.substr(7, 16)), into);
            part = RankPart();
        } else if (part.said.rank >= 0) {
            read_stack_line(line, part);
        }
    }
    finish_rank(part, into);
}

}  // namespace titan::analyzer
