// A ring image -> Process.
#pragma once

#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

class Symbols;

// `symbols` name the places of calls that have no Python frames. Of a frame (OpenedSource::extent) comes what makes the
// process part of a run: communicators and labels, and nothing of what it did.
Process decode_process(const OpenedSource& opened, Symbols* symbols = nullptr);

}  // namespace titan::analyzer
