#include "stack_tree.h"

#include <algorithm>

namespace titan::analyzer {

void add_stack(StackNode& root, int rank, const std::vector<std::string>& outermost_first) {
    StackNode* node = &root;
    const auto count = [&](StackNode& of) {
        of.ranks.insert(rank);
        ++of.threads;
    };
    count(root);
    for (const std::string& text : outermost_first) {
        auto found = std::find_if(node->children.begin(), node->children.end(),
                                  [&](const StackNode& child) { return child.text == text; });
        if (found == node->children.end()) {
            found = node->children.insert(found, StackNode{text, {}, 0, 0, {}});
        }
        node = &*found;
        count(*node);
    }
    ++node->ending;
}

namespace {

void sort_children(StackNode& node) {
    std::stable_sort(node.children.begin(), node.children.end(),
                     [](const StackNode& a, const StackNode& b) { return a.threads > b.threads; });
    for (StackNode& child : node.children) {
        sort_children(child);
    }
}

}  // namespace

StackNode merge_stacks(const std::vector<ProcessStacks>& all, bool all_threads) {
    StackNode root;
    for (const ProcessStacks& process : all) {
        if (process.threads.empty()) {
            add_stack(root, process.rank,
                      {"(no stacks: " + (process.notes.empty() ? "" : process.notes.front()) + ")"});
        }
        for (size_t i = 0; i < process.threads.size() && (all_threads || i == 0); ++i) {
            const ThreadStack& thread = process.threads[i];
            std::vector<std::string> texts = thread.merged.frames;
            std::reverse(texts.begin(), texts.end());
            if (texts.empty()) {
                texts.push_back("(" + no_stack_text(thread) + ")");
            }
            add_stack(root, process.rank, texts);
        }
    }
    sort_children(root);
    return root;
}

}  // namespace titan::analyzer
