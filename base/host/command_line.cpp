#include "host/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "host/words.h"

namespace titan {
namespace {

CLI::Validator number_that(bool (*fits)(double), const char* what) {
    return {[fits, what](std::string& text) {
                char* end = nullptr;
                const double number = std::strtod(text.c_str(), &end);
                const bool is_number = end != text.c_str() && *end == '\0';
                return is_number && fits(number) ? std::string()
                                                 : std::string("must be a number ") + what + ", not '" + text + "'";
            },
            ""};
}

std::string name_in(const std::string& argument) { return argument.substr(0, argument.find('=')); }

// "; did you mean --rank?" where an option of the command that was given is misspelt.
std::string option_meant(const CLI::App& app, const std::vector<std::string>& arguments) {
    const std::vector<CLI::App*> commands = app.get_subcommands();
    const CLI::App& command = commands.empty() ? app : *commands.front();
    std::vector<std::string> names;
    for (const CLI::Option* const option : command.get_options()) {
        for (const std::string& name : option->get_lnames()) {
            names.push_back("--" + name);
        }
    }
    const auto end = std::find(arguments.begin(), arguments.end(), "--");
    const auto unknown = std::find_if(arguments.begin(), end, [&](const std::string& argument) {
        return argument.starts_with("--") && command.get_option_no_throw(name_in(argument)) == nullptr;
    });
    if (unknown == end) {
        return {};
    }
    const auto others = app.get_subcommands([&](const CLI::App* other) {
        return other->get_option_no_throw(name_in(*unknown)) != nullptr;  // it is not misspelt
    });
    const std::string near = others.empty() ? nearest_word(name_in(*unknown), names) : std::string();
    return near.empty() ? near : "; did you mean " + near + "?";
}

}  // namespace

CommandOption CommandOption::required() {
    option_->required();
    return *this;
}

CommandOption CommandOption::show_default() {
    option_->capture_default_str();
    return *this;
}

CommandOption CommandOption::not_negative() {
    option_->check(number_that([](double number) { return number >= 0; }, "of at least 0"));
    return *this;
}

CommandOption CommandOption::positive() {
    option_->check(number_that([](double number) { return number > 0; }, "above 0"));
    return *this;
}

CommandOption CommandOption::between(double least, double most) {
    option_->check(CLI::Range(least, most));
    return *this;
}

CommandOption CommandOption::existing_directory() {
    option_->check(CLI::ExistingDirectory);
    return *this;
}

CommandOption CommandOption::excludes(CommandOption other) {
    option_->excludes(other.option_);
    return *this;
}

CommandOption CommandOption::one_by_one() {
    option_->allow_extra_args(false);
    return *this;
}

CommandLine::CommandLine(const std::string& program, const std::string& version, const std::string& about,
                         const std::string& footer)
    : own_(std::make_unique<CLI::App>(about)), app_(own_.get()) {
    app_->name(program);
    app_->footer(footer);
    app_->set_version_flag("--version", program + " " + version);
}

CommandLine::CommandLine(CLI::App* app) : app_(app) {}

CommandLine::~CommandLine() = default;

template <typename T>
CommandOption CommandLine::option(const std::string& names, T& value, const std::string& help) {
    return CommandOption(app_->add_option(names, value, help));
}

template CommandOption CommandLine::option(const std::string&, std::string&, const std::string&);
template CommandOption CommandLine::option(const std::string&, int&, const std::string&);
template CommandOption CommandLine::option(const std::string&, uint64_t&, const std::string&);
template CommandOption CommandLine::option(const std::string&, double&, const std::string&);
template CommandOption CommandLine::option(const std::string&, std::vector<std::string>&, const std::string&);
template CommandOption CommandLine::option(const std::string&, std::vector<int32_t>&, const std::string&);

CommandOption CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
    return CommandOption(app_->add_flag(name, value, help));
}

CommandLine& CommandLine::command(const std::string& name, const std::string& help, const std::string& footer) {
    app_->require_subcommand(0, 1);
    CLI::App* app = app_->add_subcommand(name, help)->footer(footer);
    commands_.push_back(std::unique_ptr<CommandLine>(new CommandLine(app)));
    return *commands_.back();
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
    try {
        app_->parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() != 0) {
            throw CommandLineError(error.what() + option_meant(*app_, {argv + 1, argv + argc}));
        }
        return app_->exit(error);  // --help and --version come this way, too
    }
    return std::nullopt;
}

bool CommandLine::chosen() const { return app_->parsed(); }

bool CommandLine::given(const std::string& name) const { return app_->count(name) != 0; }

std::string CommandLine::name() const { return app_->get_name(); }

std::string CommandLine::help() const {
    // Not by App::help(), which is that of the command on the command line.
    const CLI::App* const parent = app_->get_parent();
    const std::string name = parent == nullptr ? app_->get_name() : parent->get_name() + " " + app_->get_name();
    return app_->get_formatter()->make_help(app_, name, CLI::AppFormatMode::Normal);
}

bool CommandLine::has_option(const std::string& name) const { return app_->get_option_no_throw(name) != nullptr; }

CommandOption add_ring_directory_option(CommandLine& app, std::string& directory) {
    return app
        .option("--ring-dir", directory,
                "where this node's rings are, and nowhere else (default: TITANTRACE_RING_DIR or /dev/shm, and /tmp)")
        .existing_directory();
}

}  // namespace titan
