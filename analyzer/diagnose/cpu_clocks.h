// How fast the CPUs run on which the ranks' main threads compute, host by host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

class CpuClocks {
  public:
    explicit CpuClocks(const Run& run);

    // Adds as evidence that this host's CPUs run far slower than those of the other hosts.
    void tell(const std::string& host, Finding& finding) const;

  private:
    struct Host {
        std::vector<double> mhz;
        double most_mhz = 0;  // what they can
    };
    std::map<std::string, Host> hosts_;
};

}  // namespace titan::analyzer
