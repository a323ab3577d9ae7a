#!/usr/bin/env python3
"""Programs that leave their namespaces, or their root directory, after their first NCCL call."""

import guest
import harness

class Namespaces(guest.Case):
    """Each is asked for a dump after the move; the dump lies where it would have been without it."""

    def moved(self, scenario):
        self.both([guest.program("namespaces"), scenario], dumps=1, TITANTRACE_TIMEOUT_S=5)

    def whom_to_ask(self, ran):
        return ["--job", "e2e"]  # the rank may be a child, with a number of its own namespace

    def test_mounts(self):
        self.moved("mounts")

    def test_without_proc(self):
        self.moved("no_proc")

    def test_root_directory(self):
        self.moved("chroot")

    def test_users_before_cuda(self):
        self.moved("user")

    def test_nobody_before_cuda(self):
        """Files of nobody belong to whoever is nobody outside: tools find no ring. The program notices nothing."""
        self.both([guest.program("namespaces"), "unmapped_user"])
        self.both([guest.program("namespaces"), "user_later"])

    def test_network_ipc_and_names(self):
        self.moved("others")

    def test_files(self):
        self.moved("files")

    def test_namespaces_of_another_process(self):
        self.moved("setns")

    def test_first_process_of_a_namespace(self):
        self.moved("pids")

    def test_time(self):
        self.moved("time")

    def test_time_of_another_process(self):
        self.moved("setns_time")


if __name__ == "__main__":
    harness.main()
