#include "graph.h"

#include <map>

namespace simgpu {

std::unique_ptr<CUgraph_st> copy_graph(const CUgraph_st& from) {
    auto copy = std::make_unique<CUgraph_st>();
    std::map<CUgraphNode, CUgraphNode> twin;
    for (const auto& node : from.nodes) {
        auto made = std::make_shared<CUgraphNode_st>(*node);
        made->original = node.get();
        for (CUgraphNode& dependency : made->dependencies) {
            dependency = twin[dependency];
        }
        if (node->child) {
            made->child = copy_graph(*node->child);
            made->child->embedded = true;
        }
        twin[node.get()] = made.get();
        copy->nodes.push_back(std::move(made));
    }
    return copy;
}

void publish_graph(CUgraph graph) {
    driver().graphs.insert(graph);
    for (const auto& node : graph->nodes) {
        if (node->child) {
            publish_graph(node->child.get());
        }
    }
}

void withdraw_graph(CUgraph graph) {
    driver().graphs.erase(graph);
    for (const auto& node : graph->nodes) {
        if (node->child) {
            withdraw_graph(node->child.get());
        }
    }
}

CUgraphNode add_node(CUgraph_st& graph, CUgraphNode_st node) {
    graph.nodes.push_back(std::make_shared<CUgraphNode_st>(std::move(node)));
    const CUgraphNode made = graph.nodes.back().get();
    if (made->child) {
        made->child->embedded = true;
        publish_graph(made->child.get());
    }
    return made;
}

CUgraphExecUpdateResult compare_graphs(const CUgraph_st& from, const CUgraph_st& to, CUgraphNode* odd) {
    *odd = nullptr;
    if (from.nodes.size() != to.nodes.size()) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    std::map<CUgraphNode, CUgraphNode> twin;
    for (size_t i = 0; i < from.nodes.size(); ++i) {
        const CUgraphNode_st& mine = *from.nodes[i];
        const CUgraphNode_st& other = *to.nodes[i];
        twin[from.nodes[i].get()] = to.nodes[i].get();
        *odd = to.nodes[i].get();
        if (mine.type != other.type) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        }
        std::vector<CUgraphNode> expected;
        for (const CUgraphNode dependency : mine.dependencies) {
            expected.push_back(twin[dependency]);
        }
        if (expected != other.dependencies) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        }
        if (mine.child) {
            CUgraphNode inner;
            const CUgraphExecUpdateResult result = compare_graphs(*mine.child, *other.child, &inner);
            if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
                return result;
            }
        }
    }
    *odd = nullptr;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

std::unique_ptr<CUgraph_st> copy_renamed(const CUgraph_st& from, const CUgraph_st& names) {
    auto copy = copy_graph(from);
    for (size_t i = 0; i < copy->nodes.size(); ++i) {
        copy->nodes[i]->original = names.nodes[i]->original;
        if (copy->nodes[i]->child) {
            copy->nodes[i]->child = copy_renamed(*copy->nodes[i]->child, *names.nodes[i]->child);
        }
    }
    return copy;
}

std::vector<Work> unroll(const CUgraph_st& graph) {
    std::vector<Work> works;
    for (const auto& node : graph.nodes) {
        if (node->child) {
            for (Work& inner : unroll(*node->child)) {
                works.push_back(std::move(inner));
            }
        } else if (node->records) {
            auto moment = std::make_shared<Moment>();
            node->records->moment = moment;
            works.push_back([moment] { moment->finish(); });
        } else if (node->awaits) {
            if (auto moment = node->awaits->moment) {
                works.push_back([moment] { moment->wait(); });
            }
        } else if (node->run) {
            works.push_back(node->run);
        }
    }
    return works;
}

}  // namespace simgpu
