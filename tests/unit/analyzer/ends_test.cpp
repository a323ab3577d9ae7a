// What is left after a launcher has cleaned up: who ended first, and who was only ended with the others.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "played.h"
#include "temporary_directory.h"

#include "diagnose.h"
#include "ends.h"
#include "host/presence.h"
#include "host_threads.h"
#include "link_run.h"

using namespace titan;
using namespace titan::test;
using analyzer::Liveness;
using analyzer::Process;

namespace {

constexpr int64_t kMs = 1'000'000;

bool tells(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

// Rank 2 of four ends, or hangs, before its third step; the others wait for it, and are ended by `end`.
template <typename End>
Played ended(End end, bool hung = false) {
    Scenario job(4);
    write_training(job, 4);
    job.program(2).insert_before("tp:1", 2, hung ? Program().sleep() : Program().die());
    job.play();
    Played played{run_of(job), {}};
    for (Process& process : played.run.processes) {
        process.liveness = Liveness::kKilled;
        process.ending.seen_ns = process.last_activity_ns();
        end(process, process.rank == 2);
    }
    judge(played);
    return played;
}

void tell_to_end(Process& process, int64_t at_ns, int sender = 77) {
    process.ending.asked_ns = at_ns;
    process.ending.signal = SIGTERM;
    process.ending.sender = sender;
    process.ending.seen_ns = std::max(process.ending.seen_ns, at_ns);
    process.now_ns = process.ending.seen_ns;
}

int64_t newest_ns(const Process& process) { return process.last_activity_ns(); }

// Rank 2 of four ends when nobody waits for it; the others are told to end after that.
template <typename End>
Played ended_unawaited(End end) {
    Scenario job(4);
    write_training(job, 4);
    job.play();
    Played played{run_of(job), {}};
    for (Process& process : played.run.processes) {
        process.liveness = Liveness::kKilled;
        process.ending.seen_ns = newest_ns(process);
        if (process.rank != 2) {
            tell_to_end(process, newest_ns(process) + 100 * kMs);
        }
        end(process, process.rank == 2);
    }
    judge(played);
    return played;
}

}  // namespace

TEST_CASE("a rank that died first is dead, those that the launcher told to end are not") {
    const Played played = ended([](Process& process, bool culprit) {
        if (!culprit) {
            tell_to_end(process, newest_ns(process) + 100 * kMs);
        }
    });
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kRankDead);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(played.head().confidence == Confidence::kCertain);
    CHECK(played.head().victims == ranks({0, 1, 3}));
}

TEST_CASE("a death that nobody waited for yet is shown where the others stood") {
    const Played played = ended_unawaited([](Process& process, bool culprit) {
        if (!culprit) {
            process.texts.push_back("step at train.py:7");
            const auto place = static_cast<uint32_t>(process.texts.size() - 1);
            process.positions = {
                {.thread = process.pid, .name = 0, .why_none = 0, .frames = {place}, .libraries = {0}, .python = 1}};
        }
    });
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kRankDead);
    CHECK(played.head().victims.empty());
    const auto evidence = texts_of(played.head().evidence);
    CHECK(std::count(evidence.begin(), evidence.end(),
                     "ranks 0-1,3 stood in step at train.py:7, not yet waiting for it") == 1);
}

TEST_CASE("of several ranks that exit at once the first need not be at fault, and one that did not is shown") {
    const auto job = [](const std::string& frame) {
        return ended_unawaited([&](Process& process, bool culprit) {
            if (!culprit) {
                process.liveness = Liveness::kAlive;
                process.ending = {};
                process.texts.push_back(process.rank == 3 ? "poll at train.py:7" : frame);
                const auto place = static_cast<uint32_t>(process.texts.size() - 1);
                process.positions = {{.thread = process.pid,
                                      .name = 0,
                                      .why_none = 0,
                                      .frames = {place},
                                      .libraries = {0},
                                      .native = 0}};
            }
        });
    };
    const Played exiting = job("exit at exit.c:146 (libc.so.6)");
    REQUIRE(exiting.diagnosis.findings.size() == 1);
    const Played elsewhere = job("exit at train.py:9");
    CHECK(elsewhere.head().confidence > exiting.head().confidence);
    const auto says = [](const Played& played, const std::string& text) {
        const auto lines = texts_of(played.head().evidence);
        return std::count(lines.begin(), lines.end(), text) == 1;
    };
    CHECK(says(exiting, "ranks 0-1 were exiting, too, when they dumped"));
    CHECK(says(exiting, "rank 3 stood in poll at train.py:7, not yet waiting for it"));
    CHECK(says(elsewhere, "ranks 0-1 stood in exit at train.py:9, not yet waiting for it"));
}

TEST_CASE("who fails first where nobody waits may have been told of another's mistake: that is no certainty") {
    // As with TORCH_DISTRIBUTED_DEBUG=DETAIL: all ranks compare their calls before they make them, and all raise.
    for (const Liveness how : {Liveness::kExited, Liveness::kKilled}) {
        const Played played = ended_unawaited([how](Process& process, bool culprit) {
            if (culprit && how == Liveness::kExited) {
                process.liveness = how;
                process.ending.exit_status = 1;
                process.ending.left_ns = newest_ns(process);
            }
        });
        REQUIRE(played.diagnosis.findings.size() == 1);
        CHECK(played.head().kind == FindingKind::kRankDead);
        CHECK(played.head().ranks == ranks({2}));
        CHECK((played.head().confidence == Confidence::kCertain) == (how == Liveness::kKilled));
    }
}

TEST_CASE("a status other than 0 is a failure, one of 0 is not") {
    for (const int status : {0, 3}) {
        const Played played = ended([&](Process& process, bool culprit) {
            if (culprit) {
                process.liveness = Liveness::kExited;
                process.ending.exit_status = status;
                process.ending.left_ns = newest_ns(process);
            } else {
                tell_to_end(process, newest_ns(process) + 100 * kMs);
            }
        });
        REQUIRE(played.diagnosis.findings.size() == 1);
        CHECK(played.head().ranks == ranks({2}));
        CHECK((played.head().kind == FindingKind::kRankDead) == (status != 0));
        CHECK((status == 0 || tells(played.head().summary.text(), "exited with status 3")));
    }
}

TEST_CASE("a rank that ignores the signal and is killed 30 s later did not die first") {
    const Played played = ended([](Process& process, bool culprit) {
        if (culprit) {
            return;
        }
        tell_to_end(process, newest_ns(process) + 100 * kMs);
        if (process.rank == 1) {
            process.ending = {.seen_ns = newest_ns(process) + 30'000 * kMs};
        }
    });
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kRankDead);
    CHECK(played.head().ranks == ranks({2}));
}

TEST_CASE("a rank that somebody ended by hand ended first, though by the same signal") {
    const Played played = ended([](Process& process, bool culprit) {
        tell_to_end(process, newest_ns(process) + (culprit ? 1 : 200) * kMs, culprit ? 4711 : 77);
    });
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kRankDead);
    CHECK(played.head().ranks == ranks({2}));
}

TEST_CASE("of two that are gone without a note, one may have been killed before it could make one") {
    const Played played = ended([](Process& process, bool culprit) {
        process.now_ns = newest_ns(process);
        if (!culprit && process.rank != 3) {
            tell_to_end(process, newest_ns(process) + 500 * kMs);
        }
    });
    REQUIRE(!played.diagnosis.findings.empty());
    for (const analyzer::Finding& finding : played.diagnosis.findings) {
        CHECK(finding.kind == FindingKind::kRankDead);
        CHECK(finding.confidence == Confidence::kLikely);
    }
}

TEST_CASE("one is gone without a note, another left no record: either may have ended first") {
    for (const bool long_before : {false, true}) {
        Played played = ended([&](Process& process, bool culprit) {
            if (!culprit) {
                tell_to_end(process, newest_ns(process) + (long_before ? 3000 : 100) * kMs);
            }
        });
        std::erase_if(played.run.processes, [](const Process& process) { return process.rank == 0; });
        for (Process& process : played.run.processes) {
            process.liveness = Liveness::kKilled;
        }
        played.run.warnings.clear();
        judge(played);
        REQUIRE(!played.diagnosis.findings.empty());
        CHECK(played.head().kind == FindingKind::kRankDead);
        CHECK(played.head().ranks == ranks({2}));
        CHECK(played.head().confidence == (long_before ? Confidence::kCertain : Confidence::kLikely));
    }
}

TEST_CASE("all on record were told to end, and one left no record: that one may be the reason") {
    Scenario job(4);
    write_training(job, 4);
    job.play();
    Played played{run_of(job), {}};
    auto& processes = played.run.processes;
    std::erase_if(processes, [](const Process& process) { return process.rank == 1; });
    for (Process& process : processes) {
        process.liveness = Liveness::kKilled;
        tell_to_end(process, newest_ns(process) + kMs);
    }
    judge(played);
    CHECK(played.diagnosis.findings.empty());
    CHECK(tells(played.diagnosis.cannot_tell, "rank 1 left no record, and nothing shows whether it ended first"));
}

TEST_CASE("a hang that was ended is a hang; the end is a note") {
    for (const bool by_abort : {false, true}) {
        const Played played = ended(
            [&](Process& process, bool culprit) {
                const int64_t end_ns = process.now_ns;
                if (by_abort && !culprit) {
                    process.liveness = Liveness::kCrashed;  // its watchdog
                    process.ending.seen_ns = end_ns;
                } else {
                    tell_to_end(process, end_ns + (by_abort ? 100 * kMs : 0));
                }
            },
            true);
        REQUIRE(played.diagnosis.findings.size() == 1);
        CHECK(played.head().kind == FindingKind::kRankNotArrived);
        CHECK(played.head().ranks == ranks({2}));
        const auto evidence = texts_of(played.head().evidence);
        CHECK(std::any_of(evidence.begin(), evidence.end(), [](const std::string& line) {
            return tells(line, "hung before it ended: it was told to end by SIGTERM");
        }));
    }
}

namespace {

// As PyTorch's watchdog does it in a thread of its own: the abort ends what waits, and the process crashes.
void abort_communicators(Scenario& job, int rank) {
    constexpr uint32_t kWatchdogThread = 999;
    auto& ring = job.ring(rank);
    const uint64_t aborted_ticks = job.now_ticks(rank) - 10 * kMs;
    const uint64_t calls = ring.next_ticket();
    auto& abort = ring.add_call(ring.call(calls - 1).communicator, format::OpKind::kCommAbort);
    abort.thread = kWatchdogThread;
    abort.entered_ticks = abort.returned_ticks = aborted_ticks;
    abort.state = format::CallState::kReturned;
    for (uint64_t ticket = 0; ticket < calls; ++ticket) {
        auto& call = ring.call(ticket);
        auto& communicator = ring.communicator(call.communicator);
        communicator.closed_ticks = aborted_ticks;
        communicator.state = format::CommState::kAborted;
        if (call.state != format::CallState::kFinished) {
            call.state = format::CallState::kFinished;
            call.gpu_finished_ticks = aborted_ticks + kMs;
            communicator.finished = communicator.next_sequence;
        }
    }
    ring.header().state = format::ProcessState::kCrashed;
}

Played aborted_everywhere(Scenario& job) {
    job.play();
    for (int rank = 0; rank < job.size(); ++rank) {
        abort_communicators(job, rank);
    }
    Played played{run_of(job, {}, "crash"), {}};
    for (Process& process : played.run.processes) {
        process.liveness = Liveness::kCrashed;
        for (analyzer::ThreadState& thread : process.threads) {
            thread.call = 0;  // the abort let it go
        }
    }
    judge(played);
    return played;
}

}  // namespace

TEST_CASE("ranks that a monitor in them ended after a hang are no deaths of their own") {
    const auto findings = [](bool by_monitor, uint64_t timeout_s) {
        Scenario job(4);
        write_training(job, 4);
        job.program(2).nth_call("world", 3).count = 7;
        job.play();
        Played played{run_of(job, {}, "crash"), {}};
        for (Process& process : played.run.processes) {
            process.liveness = Liveness::kCrashed;
            process.fatal_signal = SIGABRT;
            process.fatal_thread = by_monitor ? 999 : static_cast<uint32_t>(analyzer::working_thread(process));
            process.timeout_ns = timeout_s * 1'000'000'000;
        }
        judge(played);
        REQUIRE(!played.diagnosis.findings.empty());
        CHECK(played.head().kind == FindingKind::kSizeMismatch);
        CHECK(played.head().ranks == ranks({2}));
        return played.diagnosis.findings.size();
    };
    CHECK(findings(true, 10) == 1);
    CHECK(findings(false, 10) == 2);   // the program itself
    CHECK(findings(true, 1000) == 2);  // nothing had called it a hang
}

TEST_CASE("who aborted a communicator while it waited is not accused of the calls that it then did not make") {
    Scenario job(4);
    job.communicator("even", {0, 2});
    job.communicator("odd", {1, 3});
    job.every_rank([](int rank, Program& program) {
        for (int step = 0; step < 4; ++step) {
            program.all_reduce(rank % 2 == 0 ? "even" : "odd").all_reduce("world");
            if (rank != 1 || step != 2) {
                program.group_start().send("world", (rank + 1) % 4).recv("world", (rank + 3) % 4).group_end();
            }
            program.all_reduce("world", 32).sync();
        }
    });
    job.play();
    abort_communicators(job, 2);
    Played played{run_of(job, {}, "peer"), {}};
    played.run.processes[2].liveness = Liveness::kCrashed;
    for (analyzer::ThreadState& thread : played.run.processes[2].threads) {
        thread.call = 0;  // the abort let it go
    }
    judge(played);
    REQUIRE(!played.diagnosis.findings.empty());
    CHECK(played.head().ranks == ranks({1}));
    for (const auto& finding : played.diagnosis.findings) {
        CHECK(!tells(finding.summary.text(), "closed the communicator"));
    }
}

TEST_CASE("a hang whose watchdogs aborted the communicators is a hang, although the aborts ended the calls") {
    Scenario job(4);
    write_training(job, 4);
    job.program(2).nth_call("world", 2).count = 7;
    const Played played = aborted_everywhere(job);
    REQUIRE(!played.diagnosis.findings.empty());
    CHECK(played.head().kind == FindingKind::kSizeMismatch);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(played.diagnosis.findings.size() == 1);
}

TEST_CASE("who skipped a step of a pipeline is named after all watchdogs aborted the communicators, too") {
    constexpr uint64_t kStream = 0x61;
    constexpr uint64_t kEvent = 0xe1;
    Scenario job(4);
    job.every_rank([](int rank, Program& program) {
        for (int step = 0; step < 4; ++step) {
            if (rank == 1 && step == 2) {
                continue;
            }
            if (rank > 0) {
                program.recv("world", rank - 1).on_stream(kStream);
            }
            if (rank < 3) {
                program.send("world", rank + 1).on_stream(kStream);
            }
        }
        program.record(kEvent, kStream).wait(kEvent, 0x51).all_reduce("world").sync();
    });
    const Played played = aborted_everywhere(job);
    REQUIRE(!played.diagnosis.findings.empty());
    CHECK(played.head().kind == FindingKind::kP2pUnmatched);
    CHECK(played.head().ranks == ranks({1}));
}

namespace {

// The calls of dp wait for those of tp on another stream, so rank 3 has made the one that rank 1 waits in while rank 2
// does not come to tp. Then `killed` ends; the others live on, or are told to end a second later. `life_ns`: after the
// others' dumps.
Played killed_in_a_wait(int killed, const std::string& reason, double waited_s, bool others_live,
                        int64_t life_ns = -1000 * kMs) {
    constexpr uint64_t kStream = 0x61;
    constexpr uint64_t kEvent = 0xe1;
    ScenarioOptions options;
    options.hang_s = waited_s;
    Scenario job(4, std::move(options));
    job.communicator("tp:0", {0, 1});
    job.communicator("tp:1", {2, 3});
    job.communicator("dp:0", {0, 2});
    job.communicator("dp:1", {1, 3});
    job.every_rank([&](int rank, Program& program) {
        for (int step = 0; step < 4; ++step) {
            program.step(step).all_reduce("tp:" + std::to_string(rank / 2)).record(kEvent, 0x51);
            program.wait(kEvent, kStream).all_reduce("dp:" + std::to_string(rank % 2)).on_stream(kStream);
            program.sync(kStream);
        }
    });
    job.program(2).insert_before("tp:1", 2, Program().sleep());
    job.play();
    Played played{run_of(job, {}, reason), {}};
    for (Process& process : played.run.processes) {
        process.timeout_ns = 10'000'000'000;
        if (process.rank == killed) {
            process.liveness = Liveness::kKilled;
            process.ending.seen_ns = process.now_ns + life_ns;
        } else if (!others_live) {
            process.liveness = Liveness::kKilled;
            tell_to_end(process, process.now_ns);
        }
    }
    judge(played);
    return played;
}

}  // namespace

TEST_CASE("a rank that is killed when the job had long hung is not what it hung for") {
    for (const int killed : {0, 1, 3}) {
        for (const bool others_live : {false, true}) {
            CAPTURE(killed);
            CAPTURE(others_live);
            const Played played = killed_in_a_wait(killed, "timeout", 20, others_live);
            REQUIRE(played.diagnosis.findings.size() == 1);
            CHECK(played.head().kind == FindingKind::kRankNotArrived);
            CHECK(played.head().ranks == ranks({2}));
        }
    }
}

TEST_CASE("those that were killed with a hang are not what it hung for where the clock of their host is behind") {
    ScenarioOptions options;
    options.hang_s = 20;
    Scenario job(6, std::move(options));
    job.communicator("pair:0", {0, 1});
    job.communicator("pair:1", {2, 3});
    job.communicator("pair:2", {4, 5});
    job.every_rank([&](int rank, Program& program) {
        for (int step = 0; step < 4; ++step) {
            program.step(step).all_reduce("pair:" + std::to_string(rank / 2)).sync();
        }
    });
    job.program(0).insert_before("pair:0", 2, Program().sleep());
    job.program(2).insert_before("pair:1", 2, Program().sleep());
    job.play();
    Played played{run_of(job, {}, "timeout"), {}};
    for (Process& process : played.run.processes) {
        const bool is_behind = process.rank == 1 || process.rank == 4;
        process.host = is_behind ? "behind" : "right";
        process.liveness = Liveness::kKilled;
        process.ending.seen_ns = process.now_ns - (is_behind ? 4000 * kMs : 0);
    }
    judge(played);
    REQUIRE_FALSE(played.diagnosis.findings.empty());
    for (const auto& finding : played.diagnosis.findings) {
        CAPTURE(finding.summary.text());
        CHECK(finding.kind != FindingKind::kRankDead);
    }
}

TEST_CASE("a rank that lived on after a watchdog had called the wait for it a hang did not end it by its death") {
    const auto tells_of_the_hang = [](const std::string& line) { return tells(line, "rank 2 hung before it ended"); };
    for (const auto& [reason, waited_s, life_ns, kind] :
         {std::tuple{"timeout", 20, 2000 * kMs, FindingKind::kRankNotArrived},
          {"timeout", 20, -1000 * kMs, FindingKind::kRankDead},
          {"api", 4, 2000 * kMs, FindingKind::kRankDead}}) {
        CAPTURE(reason);
        CAPTURE(life_ns);
        const Played played = killed_in_a_wait(2, reason, waited_s, true, life_ns);
        CHECK(played.head().kind == kind);
        CHECK(played.head().ranks == ranks({2}));
        const auto evidence = texts_of(played.head().evidence);
        CHECK(std::any_of(evidence.begin(), evidence.end(), tells_of_the_hang) ==
              (kind == FindingKind::kRankNotArrived));
    }
}

TEST_CASE("a rank that is killed alone in a wait that no watchdog called a hang may be what ended the job") {
    for (const bool others_live : {false, true}) {
        const Played played = killed_in_a_wait(1, "api", 4, others_live);
        CHECK(played.head().kind == FindingKind::kRankDead);
        CHECK(played.head().ranks == ranks({1}));
        CHECK(played.head().confidence != Confidence::kCertain);
        REQUIRE_FALSE(played.head().would_confirm.empty());
        CHECK(tells(played.head().would_confirm.front().text(), "so the job may have hung already"));
    }
}

TEST_CASE("all told to end in mid-step: nobody is accused, however long the slowest took to go") {
    const Played played = ended(
        [](Process& process, bool culprit) {
            tell_to_end(process, newest_ns(process) + 3 * kMs);
            if (!culprit) {
                process.ending.seen_ns += 30'000 * kMs;
                process.now_ns = process.ending.seen_ns;
            }
        },
        true);
    CHECK(played.healthy());
    CHECK(played.diagnosis.cannot_tell.empty());
}

TEST_CASE(
    "all killed within a second: the one that all had waited for is likely, with nobody waited for it is not known") {
    const auto kill_all = [](int64_t waited_ns) {
        return ended([&](Process& process, bool culprit) {
            process.ending.seen_ns = newest_ns(process) + (culprit ? 0 : waited_ns);
            process.now_ns = process.ending.seen_ns;
        });
    };
    const Played waited = kill_all(600 * kMs);
    REQUIRE(waited.diagnosis.findings.size() == 1);
    CHECK(waited.head().kind == FindingKind::kRankDead);
    CHECK(waited.head().ranks == ranks({2}));
    CHECK(waited.head().confidence == Confidence::kLikely);
    const Played at_once = kill_all(1 * kMs);
    CHECK(at_once.healthy());
    CHECK(tells(at_once.diagnosis.cannot_tell, "nothing shows which was first"));
}

TEST_CASE("a process that is frozen is told by its control group, of either version") {
    const TemporaryDirectory directory;
    const std::filesystem::path root = directory.path;
    std::filesystem::create_directories(root / "job" / "step");
    std::filesystem::create_directories(root / "freezer" / "old");
    std::ofstream(root / "job" / "step" / "cgroup.events") << "populated 1\nfrozen 1\n";
    std::ofstream(root / "job" / "cgroup.events") << "populated 1\nfrozen 0\n";
    std::ofstream(root / "freezer" / "old" / "freezer.state") << "FROZEN\n";
    CHECK(is_frozen("0::/job/step\n", root));
    CHECK(!is_frozen("0::/job\n", root));
    CHECK(is_frozen("9:name=systemd:/\n6:freezer:/old\n0::/job\n", root));
    CHECK(!is_frozen("6:freezer:/\n0::/\n", root));
    CHECK(!is_frozen("nonsense\n:\n::\n", root));
    CHECK(halt_of('t', "ptrace_stop") == Halt::kTraced);
    CHECK(halt_of('S', "do_freezer_trap") == Halt::kFrozen);
}

TEST_CASE("one record of eight is no verdict, whatever that rank did") {
    Scenario job(8);
    write_training(job, 4);
    job.program(5).insert_before("world", 2, Program().sleep());
    job.play();
    for (const int rank : {0, 5}) {
        std::set<int> others{0, 1, 2, 3, 4, 5, 6, 7};
        others.erase(rank);
        for (const bool dead : {false, true}) {
            Run run = run_of(job, others);
            run.processes.front().liveness = dead ? Liveness::kKilled : Liveness::kAlive;
            analyzer::link(run);
            const Diagnosis diagnosis = analyzer::diagnose(run);
            CHECK(diagnosis.findings.empty());
            CHECK(tells(diagnosis.cannot_tell, "1 of 8 ranks"));
        }
    }
}

TEST_CASE("rings whose processes nobody can look up, and in which no call waited for long, are no proof of health") {
    Scenario job(4);
    write_training(job, 4);
    job.play();
    for (const Liveness liveness : {Liveness::kUnknown, Liveness::kAlive}) {
        analyzer::Run run = run_of(job);
        for (Process& process : run.processes) {
            process.source.is_ring = true;
            process.liveness = liveness;
        }
        analyzer::link(run);
        const analyzer::Diagnosis diagnosis = analyzer::diagnose(run);
        CHECK(diagnosis.findings.empty());
        CHECK(tells(diagnosis.cannot_tell, "nothing shows whether they ended") == (liveness == Liveness::kUnknown));
    }
}
