#include "capture_stacks.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ask_threads.h"
#include "base/clock.h"
#include "base/map_private.h"
#include "base/own_memory.h"
#include "base/proc_thread.h"
#include "base/text.h"
#include "dump/signals.h"
#include "exported_names.h"
#include "modules.h"
#include "python_reader.h"
#include "stack_image.h"
#include "unwinder.h"

namespace titan::tracer {
namespace {

using format::StackOutcome;

constexpr size_t kMapsBytes = 64 << 10;
constexpr size_t kMaxFramesOfThread = 256;
constexpr uint64_t kAnswerNs = 250'000'000;  // that a batch of threads gets
constexpr uint64_t kAllNs = 500'000'000;     // that all of them get
constexpr uint64_t kHurriedNs = 10'000'000;  // that it gets once that is over
// After that the rest is left out: where thousands of threads fight for the processors, reading /proc alone takes seconds.
constexpr uint64_t kEndNs = 2'000'000'000;
constexpr uint64_t kNamingNs = 100'000'000;  // that looking for names of exported functions gets

// Threads of a program often stand in the same lines.
struct KnownPlace {
    uint64_t code;
    int32_t offset;
    format::StackPython place;
};
constexpr size_t kKnownPlaces = 4096;

struct StackMemory {
    char* image;
    char* maps;
    Module* modules;
    uint32_t* known_texts;
    KnownPlace* known_places;
    pid_t* tids;
    NamedAddress* named;
};
constinit StackMemory memory{};

class Collector {
  public:
    Collector() : image_(memory.image, memory.known_texts), modules_{memory.modules, StackImage::kMaxModules, 0} {}

    void collect() {
        image_.header().began_realtime_ns = realtime_now_ns();
        began_ns_ = monotonic_now_ns();
        list_modules(modules_, memory.maps, kMapsBytes);
        for (size_t i = 0; i < modules_.count; ++i) {
            image_.add_module(modules_.modules[i]);
        }
        signal_ = stack_signal();
        new_unwind_round(signal_);
        note_what_is_missing();
        image_.header().python = image_.text(find_python());
        size_t left_out = 0;
        const size_t count = list_threads(memory.tids, StackImage::kMaxThreads, left_out);
        size_t asked = 0;
        while (asked < count && monotonic_now_ns() - began_ns_ < kEndNs) {
            const size_t rest = count - asked;
            const size_t now = rest < kAskedAtOnce ? rest : kAskedAtOnce;
            ask(memory.tids + asked, now);
            asked += now;
        }
        image_.header().threads_left_out = static_cast<uint32_t>(left_out + count - asked);
        forget_python();
        image_.header().took_ns = monotonic_now_ns() - began_ns_;
        add_exported_names(image_, modules_, {memory.named, memory.maps, kMapsBytes}, monotonic_now_ns() + kNamingNs);
    }

  private:
    void note_what_is_missing() {
        if (own_memory_.refused()) {
            image_.header().note = image_.text(
                "this process may not read its own memory (process_vm_readv and /proc/self/mem are "
                "denied): stacks are their first frame");
        } else if (signal_ == 0) {
            image_.header().note = image_.text("the program uses all real-time signals: no thread could be asked");
        } else if (!has_unwinder()) {
            image_.header().note =
                image_.text("libunwind is not installed: stacks follow frame pointers, and end where code has none");
        }
    }

    void ask(const pid_t* tids, size_t count) {
        format::StackThread* threads[kAskedAtOnce] = {};
        for (size_t i = 0; i < count; ++i) {
            ProcThread proc;
            if (read_proc_thread(tids[i], proc) && (threads[i] = image_.add_thread()) != nullptr) {
                describe(tids[i], proc, *threads[i]);
            }
        }
        const uint64_t now_ns = monotonic_now_ns();
        const uint64_t deadline_ns = now_ns + (now_ns - began_ns_ < kAllNs ? kAnswerNs : kHurriedNs);
        for (size_t i = 0; i < count; ++i) {
            if (threads[i] != nullptr && threads[i]->outcome == StackOutcome::kNoAnswer) {
                ask_thread(signal_, i, tids[i], python_state_of(tids[i]));
            }
        }
        await_answers(deadline_ns);
        for (size_t i = 0; i < count; ++i) {
            if (threads[i] == nullptr || threads[i]->outcome != StackOutcome::kNoAnswer) {
                continue;
            }
            if (const Answer* answer = take_answer(i)) {
                write(answer->thread, *threads[i]);
                write(answer->python, *threads[i]);
            }
        }
    }

    // The outcome that the thread has if it is not heard from.
    void describe(pid_t tid, const ProcThread& proc, format::StackThread& thread) {
        image_.describe(thread, tid, proc);
        const bool blocks = signal_ != 0 && (proc.blocked_signals >> (signal_ - 1) & 1) != 0;
        thread.outcome = tid == gettid() || (blocks && starts_with(proc.name, "titan-")) ? StackOutcome::kOurs
                         : signal_ == 0                                                  ? StackOutcome::kNotAsked
                         : blocks                                                        ? StackOutcome::kBlocksSignal
                                                                                         : StackOutcome::kNoAnswer;
    }

    void write(const CapturedThread& captured, format::StackThread& thread) {
        size_t room = 0;
        uint64_t* const addresses = image_.frame_room(room);
        const Unwound unwound = unwind(captured, thread.tid == crashing_thread(), modules_, addresses, tops_,
                                       room < kMaxFramesOfThread ? room : kMaxFramesOfThread);
        frames_seen_ = unwound.count;
        image_.add_frames(thread, unwound.count);
        thread.outcome = unwound.whole ? StackOutcome::kUnwound : StackOutcome::kCut;
    }

    void write(const PythonWalk& walked, format::StackThread& thread) {
        thread.first_python = image_.python_count();
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
    uint64_t began_ns_ = 0;
    int signal_ = 0;
    uint64_t tops_[kMaxFramesOfThread] = {};
    size_t frames_seen_ = 0;
};

}  // namespace

bool prepare_stacks() {
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
        memory.named = map_private<NamedAddress>(StackImage::kMaxFrames);
    }
    if (memory.image == nullptr || memory.maps == nullptr || memory.modules == nullptr || memory.tids == nullptr ||
        memory.named == nullptr || memory.known_texts == nullptr || memory.known_places == nullptr ||
        !prepare_asking() || !prepare_python()) {
        memory = StackMemory{};
        return false;
    }
    prepare_unwinder();
    stack_signal();  // taken early, before the program's threads know it as one that kills
    return true;
}

std::span<const char> collect_stacks() {
    if (memory.image == nullptr) {
        return {};
    }
    release_stacks_memory();  // zeroes again
    Collector().collect();
    return {memory.image, StackImage::bytes()};
}

void release_stacks_memory() {
    if (memory.image != nullptr) {
        madvise(memory.image, StackImage::bytes(), MADV_DONTNEED);
        madvise(memory.modules, StackImage::kMaxModules * sizeof(Module), MADV_DONTNEED);
        madvise(memory.named, StackImage::kMaxFrames * sizeof(NamedAddress), MADV_DONTNEED);
        madvise(memory.known_texts, StackImage::kKnownTexts * sizeof(uint32_t), MADV_DONTNEED);
        madvise(memory.known_places, kKnownPlaces * sizeof(KnownPlace), MADV_DONTNEED);
        release_python_memory();
        release_asking_memory();
    }
}

}  // namespace titan::tracer
