// Section kStacks of a dump: where every thread of the process stood when it was dumped. Region kStackSamples of a ring
// (section 3.15): where some of them stood while it ran, in two such images. FORMAT.md is the prose twin.
//
// One image of tables, as a ring is: the header says where each table lies, records point into others by index, texts
// are offsets into the table of bytes, NUL-terminated, 0 for none. Addresses are raw: modules tell which file they are
// in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::format {

inline constexpr uint64_t kStacksMagic = 0x4B4341544E544954;  // "TITNTACK"
inline constexpr uint16_t kStacksMajor = 1;
inline constexpr uint16_t kStacksMinor = 0;

enum class StackTable : uint32_t {
    kThreads = 0,
    kFrames = 1,
    kModules = 2,
    kTexts = 3,
    kPython = 4,
    kNames = 5,
    kSamples = 6,  // of the ring only
};
inline constexpr uint32_t kStackTables = 8;  // room for more

struct StackTableDescriptor {
    uint64_t offset_bytes;
    uint32_t stride_bytes;
    uint32_t count;  // number in use
};

struct StacksHeader {
    uint64_t magic;
    uint16_t major;
    uint16_t minor;
    uint32_t header_bytes;
    uint64_t began_realtime_ns;
    uint64_t took_ns;
    uint32_t threads_left_out;  // the table does not hold them, or there was no time for them
    uint32_t note;              // text: why something is missing from all threads
    uint32_t python;            // text: which Python, or why its stacks are missing; 0 none
    uint32_t reserved32;
    uint64_t reserved;
    StackTableDescriptor tables[kStackTables];
};
static_assert(sizeof(StacksHeader) == 184);

// Result of asking a thread for its stack.
enum class StackOutcome : uint8_t {
    kUnwound = 0,       // complete
    kCut = 1,           // the frames that are there are right, more would follow
    kNoAnswer = 2,      // it ran, and took no signal in time
    kBlocksSignal = 3,  // it ran, and its signal mask keeps everything out
    kNotAsked = 4,      // no time, no signal, a seccomp filter of its own, or the system does not tell where it waits
    kOurs = 5,          // a thread of the tracer
};

struct StackThread {
    int32_t tid;
    uint32_t name;  // text
    StackOutcome outcome;
    char state;        // as in /proc: R, S, D, T, ...
    uint8_t held_gil;  // 1 where it held the GIL of its Python from before the stacks were taken until after
    uint8_t reserved8;
    uint32_t wait_channel;  // text: kernel function that it waits in, 0 unknown
    int64_t system_call;    // number, -1 none (it runs), -2 unknown
    uint64_t system_call_arguments[3];
    uint64_t cpu_ns;  // since it began
    uint32_t first_frame;
    uint32_t frame_count;  // innermost first
    uint32_t first_python;
    uint32_t python_count;  // innermost first
    uint32_t python_cut;    // 1: more would follow
    uint32_t reserved32;
};
static_assert(sizeof(StackThread) == 80);

// An address that was to be executed next: of all frames but a thread's innermost, the call is the instruction before
// it, unless kInterrupted marks it as what a signal interrupted.
inline constexpr uint64_t kInterrupted = uint64_t{1} << 63;
struct StackFrame {
    uint64_t address;
};
static_assert(sizeof(StackFrame) == 8);

struct StackPython {
    uint32_t file;      // text
    uint32_t function;  // text, qualified where Python knows that
    int32_t line;       // 0 unknown
    uint32_t is_entry;  // 1: outermost of one run of the interpreter's C function
    uint32_t native;    // entry frame: index of that run's frame among the thread's native frames, + 1; 0 unknown
    uint32_t reserved;
};
static_assert(sizeof(StackPython) == 24);

// The exported function that a frame's address lies in, for readers that do not have the file.
struct StackName {
    uint64_t address;  // the frame's address
    uint32_t name;     // text, as the linker knows it
    uint32_t reserved;
};
static_assert(sizeof(StackName) == 16);

// A thread stood there at that moment. The table of threads then has a row for each stack of each thread, once.
struct StackSample {
    uint64_t ticks;  // of the ring's clock
    int64_t step;    // of the process, kNoStep before the first
    uint32_t stack;  // row of the table of threads
    uint32_t reserved;
};
static_assert(sizeof(StackSample) == 24);

// The region is divided into two images of the same size. One is filled after the other; the one that began later is
// the newer one.
inline constexpr uint32_t kSampleImages = 2;

struct StackTableSize {
    StackTable table;
    uint32_t stride_bytes;
    uint32_t count;
};

inline constexpr size_t kMaxBuildIdBytes = 32;

struct StackModule {
    uint64_t begin;  // addresses in this process
    uint64_t end;
    uint64_t bias;  // address in the process minus address in the file
    uint32_t path;  // text
    uint32_t build_id_bytes;
    unsigned char build_id[kMaxBuildIdBytes];
};
static_assert(sizeof(StackModule) == 64);

// Room of each: a thousand different stacks, which a thread has after a quarter of an hour at the earliest.
inline constexpr StackTableSize kSampleTableSizes[] = {
    {StackTable::kThreads, sizeof(StackThread), 1024}, {StackTable::kFrames, sizeof(StackFrame), 32 << 10},
    {StackTable::kModules, sizeof(StackModule), 256},  {StackTable::kTexts, 1, 96 << 10},
    {StackTable::kPython, sizeof(StackPython), 12288}, {StackTable::kNames, sizeof(StackName), 3072},
    {StackTable::kSamples, sizeof(StackSample), 4096},
};

// Size of one of them: whole pages.
constexpr uint64_t sample_image_bytes() {
    uint64_t bytes = sizeof(StacksHeader);
    for (const StackTableSize& size : kSampleTableSizes) {
        bytes += uint64_t{size.stride_bytes} * size.count;
    }
    return (bytes + 4095) / 4096 * 4096;
}

}  // namespace titan::format
