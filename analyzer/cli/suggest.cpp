// Commands and options in the wrong place, and commands that are misspelt.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "commands.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

std::string command_line(const std::string& command, const std::vector<std::string>& arguments) {
    std::string text = "titan-analyze " + command;
    for (const std::string& argument : arguments) {
        text += " " + shell_quoted(printable(argument));
    }
    return text;
}

}  // namespace

std::string suggestion(const CommandLine& app, const std::vector<std::string>& arguments) {
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
    if (arguments[0] == "version") {
        return "; did you mean: titan-analyze --version";
    }
    for (size_t i = 1; i < arguments.size(); ++i) {
        if (find([&](const CommandLine& command) { return command.name() == arguments[i]; })) {
            return "; the command comes first: " + command_line(arguments[i], without(i));
        }
    }
    std::vector<std::string> names;
    for (const auto& command : app.commands()) {
        names.push_back(command->name());
    }
    if (const std::string near = nearest_word(arguments[0], names); !near.empty() && !arguments[0].starts_with('-')) {
        return "; did you mean: " + command_line(near, without(0));
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
