#include <cerrno>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "base/memory.h"
#include "base/proc_thread.h"
#include "base/text.h"
#include "code_place.h"
#include "frames.h"
#include "runtime.h"
#include "stack_image.h"
#include "thread_states.h"
#include "tracer/outside.h"

namespace titan::tracer {
namespace {

constexpr uint32_t kMaxStates = 4096;
constexpr uint32_t kMaxFrames = 192;
constexpr size_t kFileBytes = 512;
constexpr size_t kFunctionBytes = 256;

format::StackPython row_of(StackImage& image, const char* file, const char* function, int32_t line, bool is_entry) {
    format::StackPython row{};
    row.file = image.text(file);
    row.function = image.text(function);
    row.line = line;
    row.is_entry = is_entry ? 1 : 0;
    return row;
}

// The Python of one other process.
class ThreadReader {
  public:
    explicit ThreadReader(pid_t pid) {
        const int refused = open_memory(pid, memory_);
        if (refused != 0) {
            said_ = refused == EPERM
                        ? "Python stacks are missing: the system does not let this user read the process' memory "
                          "(kernel.yama.ptrace_scope, containers); root may"
                        : std::string("Python stacks are missing: the process' memory cannot be read: ") +
                              error_text(refused);
            return;
        }
        open_ = true;
        const auto room = std::make_unique<char[]>(python::kFindRoomBytes);
        char reason[python::kReasonBytes] = "";
        const python::Search found = python::find_runtime(memory_, room.get(), runtime_, reason);
        if (found == python::Search::kRefused) {
            said_ = std::string("Python stacks are missing: ") + reason;
        } else if (found == python::Search::kFound) {
            list_states();
        }
    }
    ~ThreadReader() {
        if (open_) {
            close_memory(memory_);
        }
    }
    ThreadReader(const ThreadReader&) = delete;
    ThreadReader& operator=(const ThreadReader&) = delete;

    const std::string& said() const { return said_; }

    void add_frames(pid_t tid, StackImage& image, format::StackThread& thread) const {
        for (const python::ThreadState& state : states_) {
            if (state.native_id == static_cast<uint64_t>(tid)) {
                walk(state.address, image, thread);
                return;
            }
        }
    }

  private:
    void list_states() {
        states_.resize(kMaxStates);
        states_.resize(python::list_threads(memory_, runtime_, states_.data(), kMaxStates).count);
        char version[python::kVersionBytes];
        python::version_text(runtime_, version);
        said_ = version;
    }

    void walk(uint64_t address, StackImage& image, format::StackThread& thread) const {
        std::vector<python::Frame> frames(kMaxFrames);
        const python::Walk walked = python::walk(memory_, runtime_, address, frames.data(), kMaxFrames);
        thread.first_python = image.python_count();
        thread.python_cut = walked.cut == python::Cut::kNone ? 0 : 1;
        for (uint32_t i = 0; i < walked.count; ++i) {
            char file[kFileBytes];
            char function[kFunctionBytes];
            python::Place place;
            if (!python::describe(memory_, runtime_, frames[i].code, frames[i].offset, file, sizeof(file), function,
                                  sizeof(function), place) ||
                !image.add_python(row_of(image, file, function, place.line, frames[i].is_entry))) {
                thread.python_cut = 1;
                return;
            }
            ++thread.python_count;
        }
    }

    Memory memory_;
    python::Runtime runtime_;
    bool open_ = false;
    std::string said_;
    std::vector<python::ThreadState> states_;
};

void describe(const ProcThread& proc, pid_t tid, StackImage& image, format::StackThread& thread) {
    image.describe(thread, tid, proc);
    thread.outcome = format::StackOutcome::kNotAsked;
}

}  // namespace

std::vector<char> collect_outside_stacks(pid_t pid, const std::string& note) {
    std::vector<char> bytes(StackImage::bytes());
    std::vector<uint32_t> known_texts(StackImage::kKnownTexts);
    std::vector<pid_t> tids(StackImage::kMaxThreads);
    StackImage image(bytes.data(), known_texts.data());
    image.header().began_realtime_ns = realtime_now_ns();
    const uint64_t began_ns = monotonic_now_ns();
    image.header().note = image.text(note.c_str());
    size_t left_out = 0;
    tids.resize(list_threads(tids.data(), tids.size(), left_out, pid));
    if (tids.empty()) {
        return {};
    }
    image.header().threads_left_out = static_cast<uint32_t>(left_out);
    const ThreadReader reader(pid);
    image.header().python = image.text(reader.said().c_str());
    for (const pid_t tid : tids) {
        ProcThread proc;
        format::StackThread* const thread = read_proc_thread(tid, proc, pid) ? image.add_thread() : nullptr;
        if (thread != nullptr) {
            describe(proc, tid, image, *thread);
            reader.add_frames(tid, image, *thread);
        }
    }
    image.header().took_ns = monotonic_now_ns() - began_ns;
    return bytes;
}

}  // namespace titan::tracer
