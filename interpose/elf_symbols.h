// Symbols of loaded objects, read from their dynamic sections: for what may not go through dlsym, because it is what stands
// behind our dlsym, or because "defined in this very object" is the question. cold; takes no lock of the loader, allocates
// nothing, works before any constructor has run.
#pragma once

#include <link.h>

namespace titan::interpose {

// The function `name` that this object itself defines; null when it does not.
void* function_in(const link_map& object, const char* name);

// The object that holds this address, null when none does.
const link_map* object_of(const void* address);

// Does this library hold it?
bool is_ours(const void* address);

}  // namespace titan::interpose
