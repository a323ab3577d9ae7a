#include "fork_page.h"

namespace titan::tracer {

constinit std::atomic<ForkPage*> fork_page{nullptr};

}  // namespace titan::tracer
