// The options of a program, or of one of its commands. CLI11 reads them, behind this one file: it costs each file that
// includes it ten seconds of compilation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace titan {

// One option, for further settings. Valid as long as its command line.
class CommandOption {
  public:
    explicit CommandOption(CLI::Option* option) : option_(option) {}

    CommandOption required();
    CommandOption show_default();  // shows the default in --help
    CommandOption not_negative();  // a number from 0 on
    CommandOption positive();      // a number above 0
    CommandOption between(double least, double most);
    CommandOption excludes(CommandOption other);
    CommandOption one_by_one();  // a list: each time the option takes one value, and a path may follow it
    CommandOption existing_directory();

  private:
    CLI::Option* option_;
};

// The message says what is wrong with the arguments.
struct CommandLineError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class CommandLine {
  public:
    CommandLine(const std::string& program, const std::string& version, const std::string& about,
                const std::string& footer);
    ~CommandLine();
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;

    // "--rank", "-o,--output", or "PATH" for what stands without a name. Values are only written by parse().
    // T: std::string, int, uint64_t, double, or a vector of strings or of int32_t.
    template <typename T>
    CommandOption option(const std::string& names, T& value, const std::string& help);
    CommandOption flag(const std::string& name, bool& value, const std::string& help);

    // A command such as `titan-analyze show`; lives as long as this.
    CommandLine& command(const std::string& name, const std::string& help, const std::string& footer);

    // Returns nothing to go on, or a status to exit with: --help or --version was printed. Throws CommandLineError.
    std::optional<int> parse(int argc, char** argv);
    // True if parse() found this command.
    bool chosen() const;
    // True if parse() found this option.
    bool given(const std::string& name) const;

    std::string name() const;
    // What --help prints.
    std::string help() const;
    bool has_option(const std::string& name) const;
    const std::vector<std::unique_ptr<CommandLine>>& commands() const { return commands_; }

  private:
    explicit CommandLine(CLI::App* app);

    std::unique_ptr<CLI::App> own_;  // none in a command: that of its program
    CLI::App* app_;
    std::vector<std::unique_ptr<CommandLine>> commands_;
};

// Declares "--ring-dir", which all programs have (node_rings.h).
CommandOption add_ring_directory_option(CommandLine& app, std::string& directory);

}  // namespace titan
