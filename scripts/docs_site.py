"""A hook of MkDocs (mkdocs.yml): links from docs/ to other files of the repository work on the site, too, and the site
has a page of all commands, with their --help.

Each file that a page links outside docs/ becomes a page, or a copy, below repository/, and so do the files that these
link in turn. Wrong links stay as they are: MkDocs then reports them. The commands come from the programs in
TITAN_DOCS_BUILD; without a build there is no such page.
"""
import os
import pathlib
import re
import subprocess

from mkdocs.structure.files import File

COMMANDS = "reference/commands.md"
PROGRAMS = ("analyzer/titan-analyze", "tools/titan-run", "tools/titan-dump", "tools/titan-top")

LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
BELOW = "repository/"


def repository_path(source):
    """The path in the repository of a file of the site."""
    return source[len(BELOW):] if source.startswith(BELOW) else f"docs/{source}"


def site_path(path):
    return path[len("docs/"):] if path.startswith("docs/") else f"{BELOW}{path}"


def root_of(config):
    return pathlib.Path(config.config_file_path).parent


def targets(root, source, text):
    """{link: path in the repository} of the links that lead to a file."""
    here = os.path.dirname(repository_path(source))
    paths = {link: os.path.normpath(os.path.join(here, link)) for _, link, _ in LINK.findall(text)}
    return {link: path for link, path in paths.items() if not path.startswith("..") and (root / path).is_file()}


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout


def commands_page(build):
    """The --help of all programs and their subcommands, or nothing if one is not built."""
    programs = [build / program for program in PROGRAMS]
    if not all(program.exists() for program in programs):
        return ""
    page = ["# Commands", "What each program and command prints with `--help`."]
    for program in programs:
        text = help_of(program)
        page += [f"## {program.name}", f"```text\n{text}```"]
        table = text.partition("Subcommands:\n")[2].partition("\n\n")[0]
        for command in re.findall(r"(?m)^  ([a-z]+) ", table):
            if command != "help":
                page += [f"### {program.name} {command}", f"```text\n{help_of(program, command)}```"]
    return "\n\n".join(page)


def on_config(config):
    page = commands_page(root_of(config) / os.environ.get("TITAN_DOCS_BUILD", "build"))
    config.extra["commands"] = page
    if page:
        reference, = [part["Reference"] for part in config.nav if "Reference" in part]
        reference.append({"Commands": COMMANDS})
    return config


def on_files(files, config):
    root = root_of(config)
    if config.extra["commands"]:
        files.append(File.generated(config, COMMANDS, content=config.extra["commands"]))
    pending = [file for file in files if file.src_uri.endswith(".md") and file.src_uri != COMMANDS]
    while pending:
        file = pending.pop()
        text = pathlib.Path(file.abs_src_path).read_text(encoding="utf-8")
        for path in targets(root, file.src_uri, text).values():
            if files.get_file_from_path(site_path(path)) is None:
                added = File.generated(config, site_path(path), abs_src_path=str(root / path))
                files.append(added)
                if path.endswith(".md"):
                    pending.append(added)
    return files


def on_page_markdown(markdown, page, config, files):
    source = page.file.src_uri
    known = targets(root_of(config), source, markdown)

    def to_site(match):
        if match[2] not in known:
            return match[0]
        return match[1] + os.path.relpath(site_path(known[match[2]]), os.path.dirname(source) or ".") + match[3]

    return LINK.sub(to_site, markdown)
