// titan-sim's command line.
#pragma once

#include <string>

#include "trainer.h"

namespace simgpu {

struct Options {
    TrainOptions train;
    bool use_split = false;
    bool threads = false;
    bool fail_fast = false;
    int hosts = 1;
    double timeout_s = 300;
    std::string pid_file;

    int ranks_per_host() const { return train.layout.world() / hosts; }
};

// Ends the process after --help (0) and after wrong arguments (2).
Options parse_options(int argc, char** argv);

}  // namespace simgpu
