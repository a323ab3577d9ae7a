// A verdict needs enough of the job: with most ranks missing, and nothing in what is there that stands by itself, there
// is none.
#pragma once

#include "finding.h"

namespace titan::analyzer {

// Fills Diagnosis::cannot_tell, and takes out findings that only blame ranks of which nothing is known while most are
// missing.
void set_cannot_tell(const Run& run, Diagnosis& diagnosis);

}  // namespace titan::analyzer
