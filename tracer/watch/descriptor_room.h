// File descriptors for a dump in a program that has used up its own: "too many open files" is how many a job ends.
#pragma once

#include "ring_file.h"

namespace titan::tracer {

// Keeps a few descriptors open, of this process's ring, so that there is something to give up. Not where the limit is
// so low that the program would miss them. A program that closes them does no harm. Once per session. The limit itself
// is the program's: raised by us for a while, it could not be told whether the program has raised it since.
void keep_spare_descriptors(const RingFile& ring_file);

// While one lives there is room: the spare descriptors are closed. Watch thread.
class DescriptorRoom {
  public:
    DescriptorRoom();
    ~DescriptorRoom();
    DescriptorRoom(const DescriptorRoom&) = delete;
    DescriptorRoom& operator=(const DescriptorRoom&) = delete;
};

}  // namespace titan::tracer
