// A ring image -> Process.
#pragma once

#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

class Symbols;

// `symbols` name the places of calls that have no Python frames.
Process decode_process(const OpenedSource& opened, Symbols* symbols = nullptr);

}  // namespace titan::analyzer
