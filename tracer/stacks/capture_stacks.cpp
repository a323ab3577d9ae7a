#include "capture_stacks.h"

#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "ask_threads.h"
#include "base/clock.h"
#include "base/map_private.h"
#include "base/own_memory.h"
#include "base/proc_thread.h"
#include "base/text.h"
#include "exported_names.h"
#include "modules.h"
#include "python_reader.h"
#include "stack_image.h"
#include "tracer/signal_actions.h"
#include "unwinder.h"

namespace titan::tracer {
namespace {

using format::StackOutcome;

constexpr size_t kMaxFramesOfThread = 256;
constexpr uint64_t kAnswerNs = 250'000'000;  // for a batch of threads
constexpr uint64_t kAllNs = 500'000'000;     // for all of them
constexpr uint64_t kHurriedNs = 10'000'000;  // for a batch once that time is over
// The rest is left out after this: where thousands of threads compete for the processors, reading /proc alone takes
// seconds.
constexpr uint64_t kEndNs = 2'000'000'000;
// A thread that runs may wait at the next look. One that is asked ran each time: it hardly ever begins to wait just
// then.
constexpr int kLooks = 10;
constexpr timespec kBetweenLooks{0, 1'000'000};
// A thread that is sampled is asked if it has run for so long without a wait. What is known of it otherwise must not
// depend on where it waits next: that would be seen too often.
constexpr timespec kRunsFor{0, 10'000'000};
constexpr int kWalksOfRunning = 3;  // of Python frames that may change meanwhile
// Modules and Python are looked for again when they are so old; where a frame lay in no module, so old.
constexpr uint64_t kFoundNs = 30'000'000'000;
constexpr uint64_t kFoundInVainNs = 5'000'000'000;
constexpr uint64_t kNamingNs = 100'000'000;  // for finding names of exported functions

// Threads of a program are often in the same lines.
struct KnownPlace {
    uint64_t code;
    int32_t offset;
    format::StackPython place;
};
constexpr size_t kKnownPlaces = 4096;

constexpr int64_t kUnknownCall = -2;  // ProcThread's value for it

bool blocks_signal(const ProcThread& proc, int number) { return (proc.blocked_signals >> (number - 1) & 1) != 0; }

bool is_ours(pid_t tid, const ProcThread& proc) {
    return tid == gettid() || (blocks_signal(proc, SIGRTMAX - 1) && starts_with(proc.name, "titan-"));
}

// The kernel may kill a thread for a system call that this one may make: our handler would make such calls for it.
bool is_confined(const ProcThread& proc, const ProcThread& own) {
    constexpr int kStrict = 1;
    return proc.seccomp_mode == kStrict || proc.seccomp_mode > own.seccomp_mode ||
           proc.seccomp_filters > own.seccomp_filters;
}

// A signal ends no wait of this kind: the kernel begins it again, and nobody notices. Not so a read or a write, which
// may end with a part, and whatever has a time limit (signal(7)).
bool is_restarted(const ProcThread& proc) {
    constexpr int64_t kNoCall = -1;
    if (proc.system_call != SYS_futex) {
        return proc.system_call == kNoCall || proc.system_call == SYS_wait4 || proc.system_call == SYS_waitid;
    }
    const uint64_t operation = proc.arguments[1] & static_cast<uint64_t>(FUTEX_CMD_MASK);
    const bool no_limit = proc.arguments[3] == 0;
    return no_limit && (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI);
}

// What is known of a thread that ran at the first look.
struct FirstLook {
    uint64_t waits;
    uint64_t cpu_ns;
};

struct StackMemory {
    char* image;
    char* maps;
    Module* modules;
    size_t module_count;
    uint64_t found_ns;  // when modules and Python were looked for, 0: they are to be
    bool in_vain;       // a frame lay in no module
    uint32_t* known_texts;
    KnownPlace* known_places;
    pid_t* tids;
    format::StackThread** open;
    FirstLook first_looks[kAskedAtOnce];  // of the first in `open`
    NamedAddress* named;
};
constinit StackMemory memory{};
constinit bool signals_allowed = false;

class Collector {
  public:
    explicit Collector(int32_t crashing)
        : image_(memory.image, memory.known_texts),
          modules_{memory.modules, StackImage::kMaxModules, 0},
          crashing_(crashing) {}

    void collect() {
        memory.found_ns = 0;
        begin();
        size_t left_out = 0;
        const size_t count = list_threads(memory.tids, StackImage::kMaxThreads, left_out);
        const size_t seen = note_all({memory.tids, count});
        image_.header().threads_left_out = static_cast<uint32_t>(left_out + count - seen);
        for (int looks = 1; looks < kLooks && open_ != 0 && !is_over(); ++looks) {
            syscall(SYS_nanosleep, &kBetweenLooks, nullptr);
            look_again();
        }
        ask_open();
        note_what_is_missing();
        for (format::StackThread& thread : image_.threads()) {
            thread.held_gil = held_gil_since(thread.tid) ? 1 : 0;
        }
        end();
        name_exported(image_);
    }

    void sample(std::span<const pid_t> threads) {
        begin();
        note_all(threads.first(std::min(threads.size(), kAskedAtOnce)));
        for (size_t i = 0; i < open_; ++i) {
            note_running(*memory.open[i], memory.first_looks[i]);
        }
        if (open_ != 0) {
            syscall(SYS_nanosleep, &kRunsFor, nullptr);
            keep_those_that_ran();
        }
        ask_open();
        const auto is_unknown = [&](const format::StackFrame& frame) {
            return modules_.find(frame.address & ~format::kInterrupted) == nullptr;
        };
        memory.in_vain = std::any_of(image_.frames().begin(), image_.frames().end(), is_unknown);
        end();
    }

  private:
    void begin() {
        image_.header().began_realtime_ns = realtime_now_ns();
        began_ns_ = monotonic_now_ns();
        has_signals_ = signals_allowed && take_stack_signals(signals_);
        read_proc_thread(gettid(), own_);
        const bool anew =
            memory.found_ns == 0 || began_ns_ - memory.found_ns > (memory.in_vain ? kFoundInVainNs : kFoundNs);
        if (anew) {
            list_modules(modules_, memory.maps, kMapsBytes);
            new_unwind_round(signals_.plain);
            memory.module_count = modules_.count;
            memory.found_ns = began_ns_;
        }
        modules_.count = memory.module_count;
        for (size_t i = 0; i < modules_.count; ++i) {
            image_.add_module(modules_.modules[i]);
        }
        image_.header().python = image_.text(anew ? find_python() : find_python_again());
    }

    // How many there was time for.
    size_t note_all(std::span<const pid_t> threads) {
        size_t seen = 0;
        while (seen < threads.size() && !is_over()) {
            note(threads[seen++]);
        }
        return seen;
    }

    // Its Python frames can be had without asking.
    void note_running(format::StackThread& thread, FirstLook& first) {
        ProcThread proc;
        const bool is_there = read_proc_thread(thread.tid, proc) && proc.switches != 0;
        first = {is_there ? proc.waits : UINT64_MAX, thread_cpu_ns(thread.tid)};
        PythonWalk& python = room_for_waiting().python;
        python.walk.cut = python::Cut::kTorn;
        for (int i = 0; i < kWalksOfRunning && python.walk.cut == python::Cut::kTorn; ++i) {
            walk_python(python_state_of(thread.tid), python);
        }
        if (python.walk.cut != python::Cut::kTorn) {
            frames_seen_ = 0;
            write(python, thread);
        }
    }

    // The others have waited since, or have not got a processor after a wait, which a signal would end.
    void keep_those_that_ran() {
        size_t kept = 0;
        for (size_t i = 0; i < open_; ++i) {
            format::StackThread* const thread = memory.open[i];
            ProcThread proc;
            if (thread_cpu_ns(thread->tid) > memory.first_looks[i].cpu_ns && read_proc_thread(thread->tid, proc) &&
                proc.waits == memory.first_looks[i].waits && proc.state == 'R') {
                memory.open[kept++] = thread;
            } else if (thread->outcome == StackOutcome::kNoAnswer) {
                thread->outcome = StackOutcome::kNotAsked;
            }
        }
        open_ = kept;
    }

    void ask_open() {
        for (size_t asked = 0; asked < open_ && !is_over(); asked += kAskedAtOnce) {
            ask(memory.open + asked, std::min(open_ - asked, kAskedAtOnce));
        }
    }

    void end() {
        forget_python();
        image_.header().took_ns = monotonic_now_ns() - began_ns_;
    }

    void note_what_is_missing() {
        if (own_memory_.refused()) {
            image_.header().note = image_.text(
                "this process may not read its own memory (process_vm_readv and /proc/self/mem are "
                "denied): stacks are their first frame");
        } else if (!has_signals_) {
            image_.header().note = image_.text(
                signals_allowed ? "the program uses all real-time signals: threads that run could not be asked"
                                : "TITANTRACE_SIGNAL=off: threads that run were not asked");
        } else if (any_hidden_) {
            image_.header().note = image_.text(
                "the system does not tell where threads wait (/proc/self/task/*/syscall): they were not asked, as a "
                "signal may end their wait");
        } else if (any_confined_) {
            image_.header().note = image_.text(
                "threads that run under a system call filter (seccomp) of their own were not asked: the answer might "
                "kill them");
        } else if (is_without_room_) {
            image_.header().note = image_.text(
                "the main thread was not asked: the program's limit of memory (RLIMIT_AS) leaves its stack no room to "
                "grow");
        } else if (!has_unwinder()) {
            image_.header().note =
                image_.text("libunwind is not installed: stacks end where a signal handler was called");
        }
    }

    bool is_over() const { return monotonic_now_ns() - began_ns_ >= kEndNs; }

    void note(pid_t tid) {
        ProcThread proc;
        format::StackThread* thread = nullptr;
        if (!read_proc_thread(tid, proc) || (thread = image_.add_thread()) == nullptr) {
            return;
        }
        image_.describe(*thread, tid, proc);
        if (!look(proc, *thread)) {
            memory.open[open_++] = thread;
        }
    }

    void look_again() {
        size_t kept = 0;
        for (size_t i = 0; i < open_; ++i) {
            format::StackThread* const thread = memory.open[i];
            ProcThread proc;
            if (!read_proc_thread(thread->tid, proc)) {
                continue;
            }
            image_.describe(*thread, thread->tid, proc);
            if (!look(proc, *thread)) {
                memory.open[kept++] = thread;
            }
        }
        open_ = kept;
    }

    // True when all that can be had of the thread is there. It has the outcome then that it keeps if it is not heard
    // from.
    bool look(const ProcThread& proc, format::StackThread& thread) {
        const bool blocks =
            has_signals_ && (blocks_signal(proc, signals_.plain) || blocks_signal(proc, signals_.alternative));
        const bool hidden = proc.system_call == kUnknownCall && proc.state != 'R';
        any_hidden_ = any_hidden_ || hidden;
        const bool confined = is_confined(proc, own_);
        const bool has_room = static_cast<pid_t>(thread.tid) != getpid() || main_stack_may_grow();
        thread.outcome = is_ours(thread.tid, proc)                          ? StackOutcome::kOurs
                         : hidden || confined || !has_room || !has_signals_ ? StackOutcome::kNotAsked
                         : blocks                                           ? StackOutcome::kBlocksSignal
                                                                            : StackOutcome::kNoAnswer;
        if (thread.outcome == StackOutcome::kOurs) {
            return true;
        }
        if (proc.instruction == 0) {
            any_confined_ = any_confined_ || confined;
            is_without_room_ = is_without_room_ || !has_room;
            return hidden;
        }
        const bool may_ask = thread.outcome == StackOutcome::kNoAnswer && is_restarted(proc);
        return read_waiting(proc, thread, may_ask);
    }

    // False: it has run meanwhile, or a signal is better: that tells all registers.
    bool read_waiting(const ProcThread& proc, format::StackThread& thread, bool may_ask) {
        Answer& answer = room_for_waiting();
        capture_waiting(answer.thread, proc);
        walk_python(python_state_of(thread.tid), answer.python);
        return waits_since(thread.tid, proc) && write(answer, thread, may_ask);
    }

    void ask(format::StackThread* const* threads, size_t count) {
        const uint64_t now_ns = monotonic_now_ns();
        const uint64_t deadline_ns = now_ns + (now_ns - began_ns_ < kAllNs ? kAnswerNs : kHurriedNs);
        for (size_t i = 0; i < count; ++i) {
            if (threads[i]->outcome == StackOutcome::kNoAnswer) {
                ask_thread(signals_, i, threads[i]->tid, python_state_of(threads[i]->tid));
            }
        }
        await_answers(deadline_ns);
        for (size_t i = 0; i < count; ++i) {
            if (threads[i]->outcome != StackOutcome::kNoAnswer) {
                continue;
            }
            ProcThread proc;
            if (const Answer* answer = take_answer(i)) {
                write(*answer, *threads[i], false);
            } else if (read_proc_thread(threads[i]->tid, proc) && proc.instruction != 0) {
                read_waiting(proc, *threads[i], false);
            }
        }
    }

    // False: frames are missing, and `whole` was asked for.
    bool write(const Answer& answer, format::StackThread& thread, bool whole) {
        if (!write(answer.thread, thread, whole)) {
            return false;
        }
        write(answer.python, thread);
        return true;
    }

    bool write(const CapturedThread& captured, format::StackThread& thread, bool whole) {
        size_t room = 0;
        uint64_t* const addresses = image_.frame_room(room);
        const Unwound unwound = unwind(captured, static_cast<int32_t>(thread.tid) == crashing_, modules_, addresses,
                                       tops_, room < kMaxFramesOfThread ? room : kMaxFramesOfThread);
        if (whole && !unwound.whole) {
            return false;
        }
        frames_seen_ = unwound.count;
        image_.add_frames(thread, unwound.count);
        thread.outcome = unwound.whole ? StackOutcome::kUnwound : StackOutcome::kCut;
        return true;
    }

    void write(const PythonWalk& walked, format::StackThread& thread) {
        thread.first_python = image_.python_count();
        thread.python_count = 0;
        thread.python_cut = walked.walk.cut == python::Cut::kNone ? 0 : 1;
        for (uint32_t i = 0; i < walked.walk.count; ++i) {
            format::StackPython place = place_of(walked.frames[i]);
            place.is_entry = walked.frames[i].is_entry ? 1 : 0;
            place.native = native_frame_of(walked.frames[i].native_mark);
            if (!image_.add_python(place)) {
                thread.python_cut = 1;
                return;
            }
            ++thread.python_count;
        }
    }

    // The native frame of the thread written last that holds that address of its stack, + 1; 0 none.
    uint32_t native_frame_of(uint64_t mark) const {
        for (size_t i = 0; mark != 0 && i + 1 < frames_seen_; ++i) {
            if (tops_[i] != 0 && tops_[i] <= mark && mark < tops_[i + 1]) {
                return static_cast<uint32_t>(i + 1);
            }
        }
        return 0;
    }

    format::StackPython place_of(const python::Frame& frame) {
        KnownPlace& known = memory.known_places[(frame.code / 16 + static_cast<uint64_t>(frame.offset)) % kKnownPlaces];
        if (known.code != frame.code || known.offset != frame.offset) {
            known = {frame.code, frame.offset, {}};
            PythonPlace place{};
            if (describe_python(frame, place)) {
                known.place = {image_.text(place.file), image_.text(place.function), place.line, 0, 0, 0};
            }
        }
        return known.place;
    }

    OwnMemory own_memory_;
    StackImage image_;
    ModuleList modules_;
    int32_t crashing_;
    uint64_t began_ns_ = 0;
    StackSignals signals_{};
    bool has_signals_ = false;
    bool any_hidden_ = false;
    bool any_confined_ = false;
    bool is_without_room_ = false;
    ProcThread own_{};
    size_t open_ = 0;  // threads of memory.open: not read yet
    uint64_t tops_[kMaxFramesOfThread] = {};
    size_t frames_seen_ = 0;
};

}  // namespace

bool prepare_stacks([[maybe_unused]] bool may_signal) {
#if defined(__SANITIZE_THREAD__)
    // ThreadSanitizer's runtime is not made for a handler that it did not install: where that interrupts the runtime
    // itself, it waits for ever. Dumps of such builds go without.
    return true;
#endif
    if (memory.tids == nullptr) {
        memory.image = map_private<char>(StackImage::bytes());
        memory.maps = map_private<char>(kMapsBytes);
        memory.modules = map_private<Module>(StackImage::kMaxModules);
        memory.known_texts = map_private<uint32_t>(StackImage::kKnownTexts);
        memory.known_places = map_private<KnownPlace>(kKnownPlaces);
        memory.tids = map_private<pid_t>(StackImage::kMaxThreads);
        memory.open = map_private<format::StackThread*>(StackImage::kMaxThreads);
        memory.named = map_private<NamedAddress>(StackImage::kMaxFrames);
    }
    if (memory.image == nullptr || memory.maps == nullptr || memory.modules == nullptr || memory.tids == nullptr ||
        memory.open == nullptr || memory.named == nullptr || memory.known_texts == nullptr ||
        memory.known_places == nullptr || !prepare_asking() || !prepare_python()) {
        memory = StackMemory{};
        return false;
    }
    prepare_unwinder();
    memory.found_ns = 0;  // of the process that we were forked from
    signals_allowed = may_signal;
    StackSignals signals{};
    if (may_signal) {
        take_stack_signals(signals);  // early, before the program's threads know them as ones that kill
    }
    stack_t alternative{};
    if (sigaltstack(nullptr, &alternative) == 0 && (alternative.ss_flags & SS_DISABLE) == 0) {
        note_alternative_stack();  // it must survive a fork
    }
    return true;
}

std::span<const char> collect_stacks(int32_t crashing) {
    if (memory.image == nullptr) {
        return {};
    }
    release_stacks_memory();  // zeroes again
    Collector(crashing).collect();
    return {memory.image, StackImage::bytes()};
}

std::span<const char> sample_stacks(std::span<const pid_t> threads) {
    if (memory.image == nullptr) {
        return {};
    }
    release_sampled_memory();
    Collector(0).sample(threads);
    return {memory.image, StackImage::bytes()};
}

void name_exported(StackImage& image) {
    add_exported_names(image, {memory.modules, StackImage::kMaxModules, memory.module_count},
                       {memory.named, memory.maps, kMapsBytes}, monotonic_now_ns() + kNamingNs);
}

void release_stacks_memory() {
    if (memory.image != nullptr) {
        release_sampled_memory();
        release_asking_memory();
        release_pages(memory.modules, StackImage::kMaxModules * sizeof(Module));
        memory.module_count = 0;
        memory.found_ns = 0;
    }
}

void release_sampled_memory() {
    if (memory.image != nullptr) {
        release_pages(memory.image, StackImage::bytes());
        release_pages(memory.named, StackImage::kMaxFrames * sizeof(NamedAddress));
        release_pages(memory.known_texts, StackImage::kKnownTexts * sizeof(uint32_t));
        release_pages(memory.known_places, kKnownPlaces * sizeof(KnownPlace));
        release_python_memory();
    }
}

}  // namespace titan::tracer
