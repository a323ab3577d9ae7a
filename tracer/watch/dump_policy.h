// Decides which requests are worth a dump: by the row of the reason (dump_reasons.def), and by the dumps that have been
// made. Watch thread.
#pragma once

#include "requests.h"
#include "session.h"

namespace titan::tracer {

void forget_dumps();                         // a new session
void note_dump(const PendingDump& pending);  // one begins now

// What becomes of a request of this process. kJoin: the last dump answers it, too. kNothing: it deserves no file.
enum class Answer { kNone, kDump, kJoin, kNothing };

// Of the request that was taken. Of an end that is not worth a dump the reason becomes kExit: the user may have asked
// for dumps at exit, too.
Answer answer_to(const Session& session, PendingDump& pending);

// The last dump shows what this rank has asked for.
bool peer_joins_last_dump(const Session& session, const JobRequest& request);

// Other processes must dump, too.
bool tells_others(const Session& session, format::DumpReason reason);

// Rings of this node stay after all have ended in order.
bool keeps_rings(format::DumpReason cause);

// The process is about to die of its own crash.
bool crashed_itself(const Session& session);

}  // namespace titan::tracer
