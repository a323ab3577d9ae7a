class OneLoggerConfig:
    def __init__(self, application_name, world_size_or_fn, session_tag_or_fn, is_baseline_run_or_fn=False,
                 custom_metadata=None):
        self.application_name = application_name
        self.world_size_or_fn = world_size_or_fn
        self.session_tag_or_fn = session_tag_or_fn
        self.is_baseline_run_or_fn = is_baseline_run_or_fn
        self.custom_metadata = custom_metadata
        self.telemetry_config = None
