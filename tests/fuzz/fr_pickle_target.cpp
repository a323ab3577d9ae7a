// Any bytes as a Flight Recorder dump in pickle, and what is read of them diagnosed.
#include "fr_seeds.h"
#include "fr_use.h"
#include "target.h"

using namespace titan;

std::vector<std::vector<unsigned char>> fuzz::seeds() { return {pickle_seed()}; }

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
    static format::fr::Tree& tree = *new format::fr::Tree;
    if (!format::fr::read_pickle(std::as_bytes(std::span(data, size)), tree)) {
        fuzz::use_dump(tree, size);
    }
    return 0;
}
