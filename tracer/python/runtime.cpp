#include "runtime.h"

#include "base/elf_image.h"
#include "base/maps.h"
#include "base/text.h"
#include "code_place.h"
#include "frames.h"
#include "thread_states.h"

namespace titan::tracer::python {
namespace {

constexpr uint64_t kCookie = 0x7970677562656478;  // "xdebugpy"
constexpr size_t kChecked = 16;                   // threads whose frames are looked at before a layout is believed
constexpr int kTries = 3;

struct Known {
    uint32_t major = 3, minor = 0;
    uint32_t hex = 0;
    bool has_own_offsets = false;
};

const char* base_name(const char* path) {
    const char* name = path;
    for (; *path != '\0'; ++path) {
        name = *path == '/' ? path + 1 : name;
    }
    return name;
}

bool digit(char c) { return c >= '0' && c <= '9'; }

// Reads N of "3.N"; false if the text is something else.
bool minor_at(const char* text, uint32_t& minor) {
    if (text[0] != '3' || text[1] != '.' || !digit(text[2])) {
        return false;
    }
    minor = static_cast<uint32_t>(text[2] - '0');
    if (digit(text[3])) {
        minor = minor * 10 + static_cast<uint32_t>(text[3] - '0');
    }
    return !digit(text[3]) || !digit(text[4]);
}

// "libpython3.9.so.1.0", "python3.10"
bool minor_in_name(const char* path, uint32_t& minor) {
    for (const char* at = base_name(path); *at != '\0'; ++at) {
        if (starts_with(at, "python") && minor_at(at + 6, minor)) {
            return true;
        }
    }
    return false;
}

constexpr char kTag[] = "cpython-3";
constexpr size_t kTagBytes = sizeof(kTag) - 1;
constexpr size_t kTagAndMinorBytes = kTagBytes + 3;

// The tag of compiled files, "cpython-39" or "cpython-310-x86_64-linux-gnu", is among every CPython's constants.
struct TagScan {
    uint32_t minor = 0;
    bool contradicts = false;

    void look(const char* text) {
        if (std::memcmp(text, kTag, kTagBytes) != 0 || !digit(text[kTagBytes])) {
            return;
        }
        auto here = static_cast<uint32_t>(text[kTagBytes] - '0');
        const char* rest = text + kTagBytes + 1;
        if (digit(*rest)) {
            here = here * 10 + static_cast<uint32_t>(*rest++ - '0');
        }
        if (*rest == '\0' || *rest == '-') {
            contradicts = contradicts || (minor != 0 && minor != here);
            minor = here;
        }
    }
};

bool minor_in_constants(const Memory& memory, const ElfImage& image, char* room, uint32_t& minor) {
    constexpr uint64_t kMaxSegmentBytes = 64 << 20;
    TagScan scan;
    for (size_t i = 0; i < image.headers.read_only_count; ++i) {
        const Segment& segment = image.headers.read_only[i];
        const uint64_t end = segment.address + (segment.bytes < kMaxSegmentBytes ? segment.bytes : kMaxSegmentBytes);
        // Pieces overlap by a tag, so that none is cut in two.
        for (uint64_t at = segment.address; at < end; at += kFindRoomBytes - kTagAndMinorBytes) {
            const size_t bytes = end - at < kFindRoomBytes ? end - at : kFindRoomBytes;
            if (bytes < kTagAndMinorBytes || !memory.read(at, room, bytes)) {
                break;
            }
            const char* const last = room + bytes - kTagAndMinorBytes;
            for (const char* text = room; text <= last; ++text) {
                text = static_cast<const char*>(std::memchr(text, kTag[0], static_cast<size_t>(last - text) + 1));
                if (text == nullptr) {
                    break;
                }
                scan.look(text);
            }
        }
    }
    minor = scan.minor;
    return minor != 0 && !scan.contradicts;
}

bool known_version(const Memory& memory, const ElfImage& image, const char* path, char* room, uint64_t runtime_address,
                   Known& known) {
    uint64_t words[3];
    if (!memory.get(runtime_address, words)) {
        return false;
    }
    uint64_t hex = 0;
    if (words[0] == kCookie) {
        hex = words[1];
        known.has_own_offsets = true;
    } else if (const uint64_t symbol = find_symbol(memory, image, "Py_Version"); symbol != 0) {
        memory.get(symbol, hex);
    }
    if (hex != 0 && hex <= UINT32_MAX) {
        known.hex = static_cast<uint32_t>(hex);
        known.major = known.hex >> 24;
        known.minor = known.hex >> 16 & 0xFF;
        return true;
    }
    if (!minor_in_name(path, known.minor) && !minor_in_constants(memory, image, room, known.minor)) {
        return false;
    }
    known.hex = 0x03000000u | known.minor << 16;
    return true;
}

bool type_is_named(const Memory& memory, const Layout& layout, uint64_t type, const char* name) {
    char there[8];
    uint64_t address;
    const size_t bytes = std::strlen(name) + 1;
    return type != 0 && memory.get(type + layout.type_name, address) && memory.read(address, there, bytes) &&
           std::memcmp(there, name, bytes) == 0;
}

// Result of checking the structures against this layout: lists of threads that name their interpreter, and frames that
// run code objects with a file's name. The program changes them meanwhile, so one good thread is proof, but bad ones
// alone are not.
enum class Verdict : uint8_t { kGood, kNotStarted, kBad };

Verdict verify_once(const Memory& memory, const Runtime& runtime) {
    uint64_t interpreter;
    if (!memory.get(runtime.address + runtime.layout.runtime_interpreters, interpreter)) {
        return Verdict::kBad;
    }
    if (interpreter == 0) {
        return Verdict::kNotStarted;
    }
    if (!type_is_named(memory, runtime.layout, runtime.code_type, "code") ||
        !type_is_named(memory, runtime.layout, runtime.text_type, "str") ||
        !type_is_named(memory, runtime.layout, runtime.bytes_type, "bytes")) {
        return Verdict::kBad;
    }
    ThreadState threads[kChecked];
    const ThreadList list = list_threads(memory, runtime, threads, kChecked);
    if (list.count == 0) {
        return list.torn ? Verdict::kBad : Verdict::kNotStarted;
    }
    bool any_bad = list.torn;
    for (uint32_t i = 0; i < list.count; ++i) {
        Frame frame;
        const Walk walked = walk(memory, runtime, threads[i].address, &frame, 1);
        char file[16], name[16];
        Place place;
        if (walked.count == 1 &&
            describe(memory, runtime, frame.code, frame.offset, file, sizeof(file), name, sizeof(name), place) &&
            place.file_bytes != 0 && place.name_bytes != 0) {
            return Verdict::kGood;
        }
        any_bad = any_bad || walked.count == 1 || walked.cut != Cut::kNone;
    }
    return any_bad ? Verdict::kBad : Verdict::kGood;
}

Verdict verify(const Memory& memory, const Runtime& runtime) {
    Verdict verdict = Verdict::kBad;
    for (int attempt = 0; attempt < kTries && verdict == Verdict::kBad; ++attempt) {
        verdict = verify_once(memory, runtime);
    }
    return verdict;
}

bool read_layout(const Memory& memory, const Known& known, Runtime& runtime) {
    if (!known.has_own_offsets) {
        return layout_of_version(known.minor, runtime.layout);
    }
    uint64_t words[kDebugWords];
    if (!memory.get(runtime.address, words)) {
        return false;
    }
    runtime.free_threaded = words[2] != 0;
    return layout_of_debug_offsets(known.minor, words, runtime.free_threaded, runtime.layout);
}

void keep_path(const char* path, Runtime& runtime) {
    const size_t length_bytes = std::strlen(path);
    const size_t over_bytes = length_bytes < sizeof(runtime.module) ? 0 : length_bytes - sizeof(runtime.module) + 1;
    copy_text(runtime.module, sizeof(runtime.module), path + over_bytes);
}

// Structures change until the release candidates.
bool pre_release(uint32_t hex) { return (hex >> 4 & 0xF) != 0 && (hex >> 4 & 0xF) < 0xC; }

}  // namespace

Search examine_module(const Memory& memory, uint64_t base, const char* path, char* room, Runtime& runtime,
                      char (&reason)[kReasonBytes]) {
    runtime = Runtime{};
    ElfImage image;
    if (!open_image(memory, base, image)) {
        return Search::kNoPython;
    }
    runtime.address = find_symbol(memory, image, "_PyRuntime");
    if (runtime.address == 0) {
        uint32_t minor = 0;  // those before 3.7 have none
        if (!minor_in_name(path, minor) || find_symbol(memory, image, "Py_GetVersion") == 0) {
            return Search::kNoPython;
        }
        format_text(reason, sizeof(reason), "CPython 3.%u is not known", minor);
        return Search::kRefused;
    }
    runtime.module_base = base;
    keep_path(path, runtime);
    const struct {
        const char* name;
        uint64_t& address;
    } symbols[] = {{"PyCode_Type", runtime.code_type},
                   {"PyUnicode_Type", runtime.text_type},
                   {"PyBytes_Type", runtime.bytes_type},
                   {"PyGILState_GetThisThreadState", runtime.this_thread_state},
                   {"Py_IsInitialized", runtime.is_initialized}};
    for (const auto& symbol : symbols) {
        symbol.address = find_symbol(memory, image, symbol.name);
    }
    Known known;
    if (!known_version(memory, image, path, room, runtime.address, known)) {
        format_text(reason, sizeof(reason), "a CPython of an unknown version");
        return Search::kRefused;
    }
    runtime.version = known.hex;
    if (pre_release(known.hex)) {
        format_text(reason, sizeof(reason), "a pre-release of CPython %u.%u is not known", known.major, known.minor);
        return Search::kRefused;
    }
    if (known.major != 3 || !read_layout(memory, known, runtime)) {
        format_text(reason, sizeof(reason), "CPython %u.%u%s is not known", known.major, known.minor,
                    runtime.free_threaded ? "t" : "");
        return Search::kRefused;
    }
    const Verdict verdict = verify(memory, runtime);
    if (verdict == Verdict::kGood) {
        return Search::kFound;
    }
    format_text(
        reason, sizeof(reason), "CPython %u.%u%s", known.major, known.minor,
        verdict == Verdict::kNotStarted ? " has not started, or is gone" : ": its structures are not as expected");
    return verdict == Verdict::kNotStarted ? Search::kNotStarted : Search::kRefused;
}

Search find_runtime(const Memory& memory, char* room, Runtime& runtime, char (&reason)[kReasonBytes]) {
    char lines[4400];
    MapsReader maps(memory.pid, lines, sizeof(lines));
    Search best = Search::kNoPython;
    format_text(reason, sizeof(reason), "no Python in this process");
    char why[kReasonBytes];
    Mapping mapping;
    while (maps.next(mapping)) {
        if (mapping.file_offset != 0 || !mapping.readable || mapping.path[0] != '/') {
            continue;
        }
        Runtime candidate;
        const Search found = examine_module(memory, mapping.start, mapping.path, room, candidate, why);
        if (found == Search::kFound) {
            runtime = candidate;
            reason[0] = '\0';
            return found;
        }
        if (found > best) {
            best = found;
            runtime = candidate;
            copy_text(reason, sizeof(reason), why);
        }
    }
    if (maps.error() != 0) {
        format_text(reason, sizeof(reason), "/proc/%d/maps: %s", memory.pid, error_text(maps.error()));
        return Search::kRefused;
    }
    return best;
}

void version_text(const Runtime& runtime, char (&text)[kVersionBytes]) {
    TextWriter writer(text, sizeof(text));
    writer.format("CPython %u.%u", runtime.version >> 24, runtime.version >> 16 & 0xff);
    if ((runtime.version & 0xffff) != 0) {
        writer.format(".%u", runtime.version >> 8 & 0xff);
    }
    writer.text(runtime.free_threaded ? " free-threaded" : "");
}

}  // namespace titan::tracer::python
