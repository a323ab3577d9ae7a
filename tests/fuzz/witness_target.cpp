// Any bytes as a file that lies beside the dumps: a launcher's log, an error file, a scheduler's lines.
#include <fmt/format.h>

#include "target.h"
#include "witness.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
    analyzer::WitnessFile witness;
    witness.path = "/logs/run_x/attempt_0/2/error.json";
    witness.label = "error.json";
    witness.text = {reinterpret_cast<const char*>(file.data()), file.size()};
    return fmt::format("read: {}", analyzer::testimonies_of(witness).size());
}

bool fuzz::seal(Bytes&) { return false; }
