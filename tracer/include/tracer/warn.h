// The tracer's voice, for interpose/.
#pragma once

namespace titan::tracer {

// One line on stderr, at most once per process and text. cold, signal-safe.
__attribute__((format(printf, 1, 2))) void warn_once(const char* pattern, ...);

// Notes which file standard error is. Called once, before the program can change it.
void note_standard_error();

}  // namespace titan::tracer
