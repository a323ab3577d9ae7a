// The stacks of all threads, for a dump (collect) or a sample: which threads may be asked (may_ask.cpp), the asking and
// the copies (ask_threads.cpp, captured.cpp), and what becomes of each (stack_writer.cpp, by unwinder.cpp and
// python_reader.cpp).
#include "capture_stacks.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "ask_threads.h"
#include "base/clock.h"
#include "base/map_private.h"
#include "base/own_memory.h"
#include "base/proc_thread.h"
#include "exported_names.h"
#include "may_ask.h"
#include "modules.h"
#include "python_reader.h"
#include "stack_image.h"
#include "stack_writer.h"
#include "tracer/signal_actions.h"
#include "unwinder.h"

namespace titan::tracer {
namespace {

using format::StackOutcome;

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
          writer_(image_, modules_, memory.known_places, crashing) {}

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
        const bool anew =
            memory.found_ns == 0 || began_ns_ - memory.found_ns > (memory.in_vain ? kFoundInVainNs : kFoundNs);
        if (anew) {
            list_modules(modules_, memory.maps, kMapsBytes);
            new_unwind_round(may_ask_.signals().plain);
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
            writer_.write_python_alone(python, thread);
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
        } else if (const char* const note = may_ask_.note(); note != nullptr) {
            image_.header().note = image_.text(note);
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
        thread.outcome = may_ask_.outcome_of(static_cast<pid_t>(thread.tid), proc);
        if (thread.outcome == StackOutcome::kOurs) {
            return true;
        }
        if (proc.instruction == 0) {
            return is_hidden(proc);
        }
        return read_waiting(proc, thread, thread.outcome == StackOutcome::kNoAnswer && is_restarted(proc));
    }

    // False: it has run meanwhile, or a signal is better: that tells all registers.
    bool read_waiting(const ProcThread& proc, format::StackThread& thread, bool whole) {
        Answer& answer = room_for_waiting();
        capture_waiting(answer.thread, proc);
        walk_python(python_state_of(thread.tid), answer.python);
        return waits_since(thread.tid, proc) && writer_.write(answer, thread, whole);
    }

    void ask(format::StackThread* const* threads, size_t count) {
        const uint64_t now_ns = monotonic_now_ns();
        const uint64_t deadline_ns = now_ns + (now_ns - began_ns_ < kAllNs ? kAnswerNs : kHurriedNs);
        for (size_t i = 0; i < count; ++i) {
            if (threads[i]->outcome == StackOutcome::kNoAnswer) {
                ask_thread(may_ask_.signals(), i, threads[i]->tid, python_state_of(threads[i]->tid));
            }
        }
        await_answers(deadline_ns);
        for (size_t i = 0; i < count; ++i) {
            if (threads[i]->outcome != StackOutcome::kNoAnswer) {
                continue;
            }
            ProcThread proc;
            if (const Answer* answer = take_answer(i)) {
                writer_.write(*answer, *threads[i], false);
            } else if (read_proc_thread(threads[i]->tid, proc) && proc.instruction != 0) {
                read_waiting(proc, *threads[i], false);
            }
        }
    }

    OwnMemory own_memory_;
    StackImage image_;
    ModuleList modules_;
    StackWriter writer_;
    MayAsk may_ask_{signals_allowed};
    uint64_t began_ns_ = 0;
    size_t open_ = 0;  // threads of memory.open: not read yet
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
