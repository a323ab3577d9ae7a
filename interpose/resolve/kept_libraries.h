// Libraries whose functions we remember must stay loaded, else a later call would jump into nothing. References are
// taken when the program closes something: dlclose waits for the loader's lock anyway, and no other call of the program
// may.
#pragma once

#include "base/loaded_objects.h"

namespace titan::interpose {

// Notes the libraries that are loaded now: they came with the program and stay. Called in the constructor.
void note_loaded_at_start();
// Does the object with this place in each_object's order belong to it?
bool is_loaded_at_start(size_t in_order);

// The library that holds `function` stays from now on, until the process ends; returns it. any-thread.
LoadedObject keep_loaded(void* function);

}  // namespace titan::interpose
