#include "host/this_host.h"

#include <unistd.h>

#include <array>

namespace titan {

std::string this_host() {
    std::array<char, 256> name{};  // the last byte stays 0, which gethostname does not promise
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace titan
