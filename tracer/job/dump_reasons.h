// The reasons to dump as a table: what follows from each (dump_reasons.def).
#pragma once

#include <cstdint>
#include <iterator>

#include "formats/layout/enums.h"

namespace titan::tracer {

// Whether TITANTRACE_DUMP_ON must list the reason.
enum class Heard : uint8_t { kListed, kAlways };

// Whether a person or a program makes such a request on purpose: it is answered again soon.
enum class Comes : uint8_t { kByItself, kOnPurpose };

// What of an incident a dump shows. What follows a hang (an abort, a crash, an end, and more waits after those) tells
// less of its cause than the hang itself.
enum class Evidence : uint8_t { kNone, kHang, kEnd };

// The dump of a moment ago that answers such a request, too.
enum class AnsweredBy : uint8_t {
    kNothing,
    kAny,
    kAnyInTimeout,   // a hang that is reported now was visible in a dump younger than the timeout, not in an older one
    kOnlyOfPeer,     // a signal to the whole process group comes round through the other ranks
    kNotOfOwnCrash,  // a process that is about to die makes its own dump
    kNotOnPurpose,   // a dump that somebody wanted to have shows nothing of a failure that came after it
};

// Processes that must dump, too. kIfNotAsked: whoever ends one rank by a signal ends the others, too; but others must
// be told of a failure. titan-dump itself says whom else its request is for.
enum class Tells : uint8_t { kNobody, kAll, kIfNotAsked };

// What strikes everywhere comes on all nodes at the same moment, and ranks that hang have time: the nodes write in
// turn.
enum class Strikes : uint8_t { kOneRank, kEverywhere };

// All ranks of a node make such a dump at once: one line tells of all of them.
enum class Said : uint8_t { kPerRank, kPerNode };

struct DumpReasonRow {
    format::DumpReason reason;
    Heard heard;
    Comes comes;
    Evidence shows;
    AnsweredBy answered_by;
    Tells tells;
    Strikes strikes;
    Said said;
};

inline constexpr DumpReasonRow kDumpReasons[] = {
#define TITAN_REASON(reason, heard, comes, shows, answered_by, tells, strikes, said)          \
    {format::DumpReason::k##reason, Heard::k##heard, Comes::k##comes,     Evidence::k##shows, \
     AnsweredBy::k##answered_by,    Tells::k##tells, Strikes::k##strikes, Said::k##said},
#include "dump_reasons.def"
};
static_assert(std::size(kDumpReasons) == format::rows_of(format::DumpReason{}).size(), "a reason has no row");

// A reason that only another version knows is treated like the one of the last row.
constexpr const DumpReasonRow& row_of(format::DumpReason reason) {
    const DumpReasonRow* row = kDumpReasons;
    while (row->reason != reason && row != std::end(kDumpReasons) - 1) {
        ++row;
    }
    return *row;
}

}  // namespace titan::tracer
