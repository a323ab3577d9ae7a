#include "decode_children.h"

#include "made_texts.h"

namespace titan::analyzer {

void decode_children(const OpenedSource& opened, Process& process) {
    process.out_of_memory_kills = opened.out_of_memory_kills;
    MadeTexts texts(process.texts);
    for (const DumpedChild& dumped : opened.children) {
        ChildProcess& child = process.children.emplace_back();
        child.pid = dumped.pid;
        child.name = texts.add(dumped.name);
        child.state = dumped.state;
        child.wait_channel = texts.add(dumped.wait_channel);
        child.cpu_ns = dumped.cpu_ns;
        child.ended_ns = dumped.ended_ns;
        child.wait_status = dumped.wait_status;
        for (const std::string& frame : dumped.frames) {
            child.frames.push_back(texts.add(frame));
        }
    }
}

}  // namespace titan::analyzer
