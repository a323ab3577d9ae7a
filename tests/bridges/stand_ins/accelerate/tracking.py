class GeneralTracker:
    main_process_only = True

    def __init__(self):
        for name in ("name", "requires_logging_directory", "tracker"):
            if name not in dir(self):
                raise NotImplementedError(name)

    def start(self):
        pass

    def finish(self):
        pass
