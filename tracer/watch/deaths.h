// The other processes of this node that are gone: they are reported, and their rings become dumps. Watch thread.
#pragma once

#include "session.h"

namespace titan::tracer {

void forget_deaths();  // a new session

// About once a second, in one process of the node: processes that became other programs are no longer ranks, and the
// dead are reported.
void look_for_the_dead(const Session& session);
// Asks for a dump because of the first process that is newly found dead.
void report_dead(const Session& session);

// Writes the dumps of those that are gone and that nobody has written one for.
void dump_the_gone(Session& session);

// The last chance: once a launcher ends this process, too, nobody is left to save the ring of the one that died first.
void save_the_dead(Session& session);

// One is newly found dead, or was since this process joined.
bool has_anyone_died_here();

}  // namespace titan::tracer
