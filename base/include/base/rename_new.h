// A file gets its name only if nobody else has it: of several who want it, on any file system, one does. signal-safe.
#pragma once

namespace titan {

// Within the directory. False with errno; EEXIST: the name is taken, and `from` stays.
bool rename_new(int dir, const char* from, const char* to);

}  // namespace titan
