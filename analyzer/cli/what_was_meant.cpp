// Commands and options in the wrong place, and commands that are misspelt.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "commands.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0]++;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

std::string command_line(const std::string& command, const std::vector<std::string>& arguments) {
    std::string text = "titan-analyze " + command;
    for (const std::string& argument : arguments) {
        text += " " + shell_quoted(printable(argument));
    }
    return text;
}

}  // namespace

std::string what_was_meant(const CommandLine& app, const std::vector<std::string>& arguments) {
    constexpr size_t kMisspelt = 2;
    const auto find = [&](const auto& fits) -> const CommandLine* {
        const auto found = std::find_if(app.commands().begin(), app.commands().end(),
                                        [&](const auto& command) { return fits(*command); });
        return found == app.commands().end() ? nullptr : found->get();
    };
    const auto without = [&](size_t index) {
        std::vector<std::string> rest = arguments;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(index));
        return rest;
    };
    if (arguments.empty() || find([&](const CommandLine& command) { return command.name() == arguments[0]; })) {
        return {};
    }
    for (size_t i = 1; i < arguments.size(); ++i) {
        if (find([&](const CommandLine& command) { return command.name() == arguments[i]; })) {
            return "; the command comes first: " + command_line(arguments[i], without(i));
        }
    }
    if (const CommandLine* near = find([&](const CommandLine& command) {
            return !arguments[0].starts_with('-') && arguments[0].size() > kMisspelt + 1 &&
                   edit_distance(arguments[0], command.name()) <= kMisspelt;
        })) {
        return "; did you mean: " + command_line(near->name(), without(0));
    }
    for (const std::string& argument : arguments) {
        const std::string option = argument.substr(0, argument.find('='));
        const auto has = [&](const CommandLine& command) {
            return option.starts_with("--") && command.has_option(option);
        };
        if (const CommandLine* command = !app.has_option(option) ? find(has) : nullptr) {
            return fmt::format("; {} is an option of a command: {}", option, command_line(command->name(), arguments));
        }
    }
    return {};
}

}  // namespace titan::analyzer
