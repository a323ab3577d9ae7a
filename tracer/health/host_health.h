// What /sys and /proc tell of the node: its InfiniBand and RoCE ports, its memory and how long tasks wait. Read by one
// process of the node. `root` is "" but in tests. cold.
#pragma once

#include "health_log.h"

namespace titan::tracer {

void read_ports(const char* root, HealthLog& log);
void read_host(const char* root, HealthLog& log);

}  // namespace titan::tracer
