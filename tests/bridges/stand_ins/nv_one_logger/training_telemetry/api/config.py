class TrainingTelemetryConfig:
    def __init__(self, perf_tag_or_fn, global_batch_size_or_fn, log_every_n_train_iterations=50,
                 save_checkpoint_strategy=None, custom_metadata=None, seq_length_or_fn=None,
                 flops_per_sample_or_fn=None):
        self.perf_tag = perf_tag_or_fn
        self.global_batch_size = global_batch_size_or_fn
        self.log_every_n_train_iterations = log_every_n_train_iterations
        self.save_checkpoint_strategy = save_checkpoint_strategy
        self.custom_metadata = custom_metadata
        self.seq_length = seq_length_or_fn
        self.flops_per_sample = flops_per_sample_or_fn
