// Any bytes as a Flight Recorder dump in json, then the analysis.
#include "read_dump.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
    static format::fr::Tree& tree = *new format::fr::Tree;
    const auto error = format::fr::read_json(std::as_bytes(file), tree);
    return error ? error->text() : read_tree(tree, file.size());
}

bool fuzz::seal(Bytes&) { return false; }
