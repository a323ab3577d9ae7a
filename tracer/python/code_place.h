// Describes a place in a code object in words: file, qualified name, line.
//
// Async-signal-safe, bounded in time and in what it reads; the caller gives the room for text. The code object may be
// gone by now (a walk made long ago, another thread running on): then the answer says so. Control characters are the
// reader's business.
#pragma once

#include "runtime.h"

namespace titan::tracer::python {

struct Place {
    int32_t line = 0;  // 0: the code has none here, or its table cannot be read
    int32_t first_line = 0;
    uint32_t file_bytes = 0;  // not counting the NUL
    uint32_t name_bytes = 0;
    bool file_cut = false;  // longer than its room; cut between characters, at its end
    bool name_cut = false;
};

// UTF-8 goes to `file` and `name`, NUL-terminated; characters that UTF-8 cannot express (lone surrogates) become
// U+FFFD. False: no code object lies there.
bool describe(const Memory& memory, const Runtime& runtime, uint64_t code, int32_t offset, char* file,
              size_t file_room_bytes, char* name, size_t name_room_bytes, Place& place);

}  // namespace titan::tracer::python
