#include "verdict_processes.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <stdexcept>

#include "host_threads.h"
#include "made_texts.h"
#include "verdict_program.h"

namespace titan::test {

namespace {

using analyzer::Liveness;
using analyzer::Process;

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kWatchdogThread = 999;
constexpr int32_t kLauncher = 77;

// PyTorch's watchdog does it in a thread of its own: the abort ends what waits, and the process crashes.
void abort_communicators(synth::Scenario& job, int rank) {
    auto& ring = job.ring(rank);
    const uint64_t aborted_ticks = job.now_ticks(rank) - 10 * kMs;
    const uint64_t calls = ring.next_ticket();
    auto& abort = ring.add_call(ring.call(calls - 1).communicator, format::OpKind::kCommAbort);
    abort.thread = kWatchdogThread;
    abort.entered_ticks = abort.returned_ticks = aborted_ticks;
    abort.state = format::CallState::kReturned;
    // Where nobody watches the GPU, nobody sees the ends that the abort makes.
    const bool watched = ring.header().gpu_progress != format::GpuProgressMethod::kOff;
    for (uint64_t ticket = 0; ticket < calls; ++ticket) {
        auto& call = ring.call(ticket);
        auto& communicator = ring.communicator(call.communicator);
        if (communicator.closed_ticks != 0 && communicator.closed_ticks != aborted_ticks) {
            continue;  // by the program, earlier
        }
        communicator.closed_ticks = aborted_ticks;
        communicator.state = format::CommState::kAborted;
        if (watched && call.state != format::CallState::kFinished) {
            call.state = format::CallState::kFinished;
            call.gpu_finished_ticks = aborted_ticks + kMs;
            communicator.finished = communicator.next_sequence;
        }
    }
    ring.header().state = format::ProcessState::kCrashed;
}

// "gpu.0.xid_79 2 1 step=8": now and when the process began, in which step it changed, and when that was seen.
void add_reading(synth::Scenario& job, int rank, const std::vector<std::string>& words) {
    const double value = std::stod(words.at(1));
    const double first = words.size() > 2 && words[2].find('=') == std::string::npos ? std::stod(words[2]) : value;
    uint64_t ticks = synth::kEpochTicks + synth::kSecond;
    int64_t step = value == first ? format::kNoStep : 8;
    for (const std::string& word : words) {
        const std::string number = word.substr(word.find('=') + 1);
        if (word.starts_with("step=")) {
            step = std::stoll(number);
        } else if (word.starts_with("at_s=")) {
            ticks = synth::kEpochTicks + std::stoull(number) * synth::kSecond;
        } else if (word.starts_with("after=")) {  // the end of that rank's record, by so many seconds
            ticks = job.now_ticks(std::stoi(number)) + std::stoull(number.substr(number.find('+'))) * synth::kSecond;
        }
    }
    job.ring(rank).add_reading(words[0], value, first, ticks).since_step = step;
}

void be_aborted(Process& process) {
    process.liveness = Liveness::kCrashed;
    for (analyzer::ThreadState& thread : process.threads) {
        thread.call = 0;  // the abort let it go
    }
}

// "+100ms" after the newest activity of the process, "now-5ms" before the end of its record.
int64_t moment(const Process& process, std::string_view text) {
    const bool of_end = text.starts_with("now");
    text.remove_prefix(of_end ? 3 : 0);
    if (!text.ends_with("ms") || (text[0] != '+' && text[0] != '-')) {
        throw std::runtime_error("no moment: " + std::string(text));
    }
    const int64_t from_ns = of_end ? process.now_ns : process.last_activity_ns();
    return from_ns + std::stoll(std::string(text.substr(0, text.size() - 2))) * kMs;
}

// "-7200s": the clock of the process's host is wrong by that.
void set_clock(Process& process, const std::string& value) {
    const int64_t by_ns = std::stoll(value) * 1000 * kMs;
    const auto shift = [&](auto&... times_ns) { ((times_ns += times_ns == 0 ? 0 : by_ns), ...); };
    shift(process.now_ns, process.started_ns);
    for (analyzer::Entry& entry : process.entries) {
        shift(entry.entered_ns, entry.returned_ns, entry.started_ns, entry.finished_ns);
    }
    for (int64_t& mark_ns : process.history.marks_ns) {
        shift(mark_ns);
    }
    for (analyzer::Member& member : process.members) {
        shift(member.created_ns, member.ready_ns, member.closed_ns);
        for (analyzer::Arrival& arrival : member.arrivals) {
            shift(arrival.entered_ns, arrival.started_ns, arrival.ended_ns);
        }
    }
    for (analyzer::ThreadState& thread : process.threads) {
        shift(thread.entered_ns, thread.last_call_ns);
    }
    for (analyzer::StreamWork& work : process.work) {
        shift(work.entered_ns);
    }
}

// PyTorch's watchdog, which asks the GPU for ever and calls nothing else.
void watch(Process& process, int64_t newest_ns) {
    analyzer::ThreadState watchdog;
    watchdog.thread = kWatchdogThread;
    watchdog.last_call_ns = newest_ns;
    process.threads.push_back(watchdog);
}

// The thread must stand somewhere.
void hold_gil(Process& process, size_t thread) {
    const auto id = static_cast<int32_t>(synth::tid_of(process.pid, thread));
    for (analyzer::ThreadPosition& position : process.positions) {
        position.held_gil = position.thread == id;
    }
    process.python_threads = static_cast<uint32_t>(process.positions.size());
}

// A third of the time that its threads wanted a processor, they had one.
void lack_processors(Process& process, uint64_t seconds) {
    process.processors.online = 2;
    process.processors.threads = 1;
    process.processors.run_delay_ns = seconds * 1000 * kMs;
    process.processors.run_ns = process.processors.run_delay_ns / 2;
}

const std::map<std::string, Liveness>& fates() {
    static const std::map<std::string, Liveness> kFates{
        {"alive", Liveness::kAlive},     {"killed", Liveness::kKilled},   {"exited", Liveness::kExited},
        {"crashed", Liveness::kCrashed}, {"unknown", Liveness::kUnknown}, {"ended", Liveness::kEnded}};
    return kFates;
}

const std::map<std::string, Halt>& halts() {
    static const std::map<std::string, Halt> kHalts{
        {"stopped", Halt::kStopped}, {"traced", Halt::kTraced}, {"frozen", Halt::kFrozen}};
    return kHalts;
}

using Word = std::function<void(Process&, const Process& before, const std::string& value)>;
const std::map<std::string, Word>& words_about() {
    static const std::map<std::string, Word> kWords{
        {"seen", [](auto& own, auto& before, auto& value) { own.ending.seen_ns = moment(before, value); }},
        {"asked",
         [](auto& own, auto& before, auto& value) {
             own.ending.asked_ns = moment(before, value);
             own.ending.signal = SIGTERM;
             own.ending.sender = kLauncher;
             own.ending.seen_ns = own.now_ns = std::max(own.ending.seen_ns, own.ending.asked_ns);
         }},
        {"sender", [](auto& own, auto&, auto& value) { own.ending.sender = std::stoi(value); }},
        {"left", [](auto& own, auto& before, auto& value) { own.ending.left_ns = moment(before, value); }},
        {"status", [](auto& own, auto&, auto& value) { own.ending.exit_status = std::stoi(value); }},
        {"now", [](auto& own, auto& before, auto& value) { own.now_ns = moment(before, value); }},
        {"aborted_in",
         [](auto& own, auto&, auto& value) {
             own.fatal_signal = SIGABRT;
             own.fatal_thread =
                 value == "program" ? static_cast<uint32_t>(analyzer::working_thread(own)) : kWatchdogThread;
         }},
        {"timeout_s", [](auto& own, auto&, auto& value) { own.timeout_ns = std::stoull(value) * 1000 * kMs; }},
        {"host", [](auto& own, auto&, auto& value) { own.host = value; }},
        {"clock", [](auto& own, auto&, auto& value) { set_clock(own, value); }},
        {"watchdog", [](auto& own, auto& before, auto& value) { watch(own, moment(before, value)); }},
        {"holds_gil", [](auto& own, auto&, auto& value) { hold_gil(own, std::stoul(value)); }},
        {"halted", [](auto& own, auto&, auto& value) { own.ending.halt = halts().at(value); }},
        {"lacked_processors_s", [](auto& own, auto&, auto& value) { lack_processors(own, std::stoull(value)); }},
        {"lost_peer",
         [](auto& own, auto&, auto&) {
             own.last_error.message = static_cast<uint32_t>(own.texts.size());
             own.last_error.at_ns = own.now_ns;
             own.texts.emplace_back("RuntimeError: [gloo/transport/tcp/pair.cc:544] Connection closed by peer");
         }},
        {"ring", [](auto& own, auto&, auto&) { own.source.is_ring = true; }},
        {"made_for", [](auto& own, auto&, auto& value) { own.members.back().size = std::stoi(value); }},
    };
    return kWords;
}

void describe(Process& process, const std::string& text) {
    const Process before = process;
    for (const std::string& word : words_of(text)) {
        const std::string key = word.substr(0, word.find('='));
        if (const auto fate = fates().find(word); fate != fates().end()) {
            process.liveness = fate->second;
            process.ending = {};
        } else if (const auto known = words_about().find(key); known != words_about().end()) {
            known->second(process, before, key.size() < word.size() ? word.substr(key.size() + 1) : "");
        } else {
            throw std::runtime_error("nothing that can be said of a process: " + word);
        }
    }
}

// "gloo::wait < barrier at c10d.py:1 < step at train.py:7": the frames of a thread, innermost first.
void stand(Process& process, size_t thread, const std::string& frames) {
    analyzer::ThreadPosition position{
        .thread = static_cast<int32_t>(synth::tid_of(process.pid, thread)), .frames = {}, .libraries = {}};
    for (size_t begin = 0; begin < frames.size();) {
        const size_t end = std::min(frames.find(" < ", begin), frames.size());
        const std::string frame = frames.substr(begin, end - begin);
        const auto index = static_cast<uint32_t>(position.frames.size());
        const bool python = frame.find(".py:") != std::string::npos;
        uint32_t& role = !python                                 ? position.native
                         : position.python == analyzer::kNoIndex ? position.python
                                                                 : position.caller;
        role = role == analyzer::kNoIndex ? index : role;
        process.texts.push_back(frame);
        position.frames.push_back(static_cast<uint32_t>(process.texts.size() - 1));
        position.libraries.push_back(0);
        begin = end + 3;
    }
    process.positions.push_back(position);
}

// "NCCL_ALGO=Tree NCCL_PROTO=": what the process was told, and that it was told anything at all.
void configure(Process& process, const std::string& text) {
    analyzer::MadeTexts texts(process.texts);
    for (const std::string& word : words_of(text)) {
        const size_t equals = word.find('=');
        process.config.emplace_back(texts.add(word.substr(0, equals)), texts.add(word.substr(equals + 1)));
    }
}

void rename(analyzer::Run& run, const std::string& from, const std::string& to) {
    for (Process& process : run.processes) {
        process.texts.push_back(to);
        for (analyzer::Member& member : process.members) {
            if (process.text(member.name) == from) {
                member.name = static_cast<uint32_t>(process.texts.size() - 1);
            }
        }
    }
}

}  // namespace

bool ProcessChanges::add(const std::string& line) {
    const std::vector<std::string> words = words_of(line);
    const std::string& verb = words.front();
    if (verb == "rename") {
        lines_.push_back({verb, {}, words.at(1), words.size() > 2 ? words[2] : "", 1});
        return true;
    }
    if (verb != "process" && verb != "stood" && verb != "config" && verb != "watchdogs_abort" && verb != "reading") {
        return false;
    }
    const size_t colon = line.find(": ");
    const std::vector<std::string> who = words_of(line.substr(verb.size(), colon - verb.size()));
    const size_t thread = who.size() > 2 ? std::stoul(who[2]) : 1;
    lines_.push_back(
        {verb, ranks_in(who.at(0), ranks_), colon == std::string::npos ? "" : line.substr(colon + 2), "", thread});
    return true;
}

void ProcessChanges::change(synth::Scenario& job) const {
    for (const Line& line : lines_) {
        for (const int rank : line.ranks) {
            if (line.verb == "watchdogs_abort") {
                abort_communicators(job, rank);
            } else if (line.verb == "reading") {
                add_reading(job, rank, words_of(line.text));
            }
        }
    }
}

void ProcessChanges::change(analyzer::Run& run) const {
    for (const Line& line : lines_) {
        if (line.verb == "rename") {
            rename(run, line.text, line.new_name);
        }
        for (Process& process : run.processes) {
            if (std::find(line.ranks.begin(), line.ranks.end(), process.rank) == line.ranks.end()) {
                continue;
            }
            if (line.verb == "process") {
                describe(process, line.text);
            } else if (line.verb == "config") {
                configure(process, line.text);
            } else if (line.verb == "stood") {
                stand(process, line.thread, line.text);
            } else if (line.verb == "watchdogs_abort") {
                be_aborted(process);
            }
        }
    }
}

}  // namespace titan::test
