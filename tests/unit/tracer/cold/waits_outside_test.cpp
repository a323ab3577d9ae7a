#include <doctest/doctest.h>

#include "formats/layout/waits_outside_nccl.h"

using titan::format::symbol_begins;

TEST_CASE("functions outside NCCL that wait are known by their names in a symbol table") {
    CHECK(symbol_begins("_ZN4gloo7barrierERNS_14BarrierOptionsE", "gloo::"));
    CHECK(symbol_begins("_ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE", "c10d::Work::wait("));
    CHECK(symbol_begins("_ZN4c10d6detail9TCPClient12receiveValueIlEET_v", "c10d::detail::TCPClient::"));
    CHECK(symbol_begins("_ZNK4c10d8TCPStore4hostEv", "c10d::TCPStore::"));
    CHECK(symbol_begins("MPI_Barrier", "MPI_"));

    CHECK_FALSE(symbol_begins("_ZN4c10d16ProcessGroupNCCL8WorkNCCL4waitEv", "c10d::Work::wait("));
    CHECK_FALSE(symbol_begins("_ZN4c10d4Work11waitForeverEv", "c10d::Work::wait("));
    CHECK_FALSE(symbol_begins("_ZN5gloomE", "gloo::"));
    CHECK_FALSE(symbol_begins("gloo", "gloo::"));
    CHECK_FALSE(symbol_begins("_ZN", "gloo::"));
    CHECK_FALSE(symbol_begins("", "MPI_"));
}
