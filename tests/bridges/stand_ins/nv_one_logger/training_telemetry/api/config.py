class TrainingTelemetryConfig:
    def __init__(self, perf_tag_or_fn, global_batch_size_or_fn, log_every_n_train_iterations=50,
                 save_checkpoint_strategy=None, custom_metadata=None):
        self.perf_tag = perf_tag_or_fn
        self.global_batch_size = global_batch_size_or_fn
        self.log_every_n_train_iterations = log_every_n_train_iterations
        self.save_checkpoint_strategy = save_checkpoint_strategy
        self.custom_metadata = custom_metadata
