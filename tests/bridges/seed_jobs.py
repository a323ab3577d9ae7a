"""One rank of a small training that tells what it does to one of the seeds alone, by the real package, and ends in one
of four ways. Two of them meet in each step, over Gloo.

    seed_jobs.py SEED END      SEED: torchtitan, one_logger or oumi; END: well, hung, killed or resumed (from step 10)
"""
import asyncio
import datetime
import math
import os
import signal
import sys
import threading
import time
import warnings

RANK = int(os.environ["RANK"])
SEED, END = sys.argv[1:]
FIRST, STEPS, LAST_OF_THE_BAD = 10 if END == "resumed" else 0, 20, 12
SAVE_EVERY = 5


def meet_others():
    import torch
    torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))


def meet():
    import torch
    torch.distributed.all_reduce(torch.ones(1))


def fetch(step):
    """Here the job ends that does not end well."""
    time.sleep(0.002 + 0.006 * RANK)
    if step == LAST_OF_THE_BAD and RANK == 1 and END == "hung":
        time.sleep(3600)
    if step == LAST_OF_THE_BAD and RANK == 1 and END == "killed":
        os.kill(os.getpid(), signal.SIGKILL)


def loss(step):
    return math.nan if step == 11 and RANK == 1 else 2 - step / 20


def torchtitan():
    import titantrace
    from torchtitan.observability import structured_logger as sl

    @sl.log_trace_span("rollout")
    async def rollout():
        await asyncio.sleep(0.002)

    async def rollouts():
        await asyncio.gather(*(asyncio.create_task(rollout(), name=f"rollout-{n}") for n in range(3)))

    @sl.log_trace_span("evaluate")
    def evaluate():
        raise ValueError("bad eval batch")

    def save():
        with sl.log_trace_span("checkpoint_save"):
            time.sleep(0.02)

    sl.log_trace_instant("before the set-up: told to nobody")
    sl.init_structured_logger(source="trainer", output_dir="outputs", rank=RANK)
    with sl.log_trace_span("torch_distributed_init"):
        meet_others()
    sl.log_trace_instant("training_start")
    savers = []
    for step in range(FIRST, STEPS):
        sl.set_step(step, relative_step=step - FIRST + 1)
        with sl.log_trace_span("step"):
            with sl.log_trace_span("fetching_batch"):
                fetch(step)
            with sl.log_trace_span("fwd_bwd"):
                time.sleep(0.01)
            with sl.log_trace_span("optim", "AdamW"):
                meet()
            sl.log_trace_scalar({"loss": loss(step), "lr": 1e-3})
            titantrace.metric("accuracy", step / STEPS, reduce="mean", weight=1 + RANK)
        if step % SAVE_EVERY == 0:
            sl.add_step_tag("checkpoint_save")
            savers.append(threading.Thread(target=save))
            savers[-1].start()
        asyncio.run(rollouts())
        if step == FIRST + 1:
            try:
                evaluate()
            except ValueError:
                pass
    for saver in savers:
        saver.join()


def one_logger():
    from nv_one_logger.api.config import OneLoggerConfig
    from nv_one_logger.core.attributes import Attributes
    from nv_one_logger.api.timed_span import get_recorder, timed_span
    from nv_one_logger.exporter.file_exporter import FileExporter
    from nv_one_logger.training_telemetry.api import callbacks, context
    from nv_one_logger.training_telemetry.api.checkpoint import CheckPointStrategy
    from nv_one_logger.training_telemetry.api.config import TrainingTelemetryConfig
    from nv_one_logger.training_telemetry.api.spans import StandardTrainingJobSpanName
    from nv_one_logger.training_telemetry.api.training_telemetry_provider import TrainingTelemetryProvider
    import pathlib
    import titantrace.one_logger
    titantrace.one_logger.install()
    began = time.time() * 1000
    config = OneLoggerConfig(application_name="llama", world_size_or_fn=2, session_tag_or_fn=lambda: "session-7",
                             is_baseline_run_or_fn=True, custom_metadata={"team": "vision"})
    TrainingTelemetryProvider.instance().with_base_config(config).with_exporter(
        FileExporter(pathlib.Path(f"telemetry-{RANK}.json"))).configure_provider()
    callbacks.on_app_start(start_time_msec=began - 5000)
    callbacks.on_model_init_start(start_time_msec=began - 4000)
    callbacks.on_model_init_end(finish_time_msec=began - 1000)
    with context.optimizer_init():
        pass
    TrainingTelemetryProvider.instance().set_training_telemetry_config(TrainingTelemetryConfig(
        perf_tag_or_fn=["small", "cpu"], global_batch_size_or_fn=32, seq_length_or_fn=1024,
        flops_per_sample_or_fn=2 * 10**9, is_log_throughput_enabled_or_fn=True, train_iterations_target_or_fn=STEPS,
        train_samples_target_or_fn=32 * STEPS, log_every_n_train_iterations=5,
        save_checkpoint_strategy=CheckPointStrategy.SYNC, custom_metadata={"cluster": "test"}))
    meet_others()
    with context.training_loop(train_iterations_start=FIRST) as loop:
        loop.add_attribute("optimizer", "AdamW")
        for step in range(FIRST, STEPS):
            with context.training_iteration():
                with timed_span(StandardTrainingJobSpanName.DATA_LOADING,
                                span_attributes=Attributes({"shard": step})):
                    fetch(step)
                with timed_span(StandardTrainingJobSpanName.MODEL_FORWARD):
                    time.sleep(0.01)
                with timed_span(StandardTrainingJobSpanName.OPTIMIZER_UPDATE):
                    meet()
            if step % SAVE_EVERY == 0:
                callbacks.on_save_checkpoint_start(step)
                time.sleep(0.01)
                callbacks.on_save_checkpoint_success(step)
                callbacks.on_save_checkpoint_end()
            if step == FIRST + 1:
                with context.validation_loop():
                    with context.validation_iteration():
                        pass
                get_recorder().telemetry_data_error("clock of the node jumps")
    callbacks.on_app_end()


def oumi():
    import titantrace.oumi
    titantrace.oumi.install()
    from oumi.core.callbacks.telemetry_callback import TelemetryCallback
    from oumi.performance.telemetry import TelemetryTracker
    import titantrace
    meet_others()
    tracker, callback = TelemetryTracker(), TelemetryCallback(world_process_zero_only=False, skip_first_steps=0)
    # As Oumi's own trainer calls it.
    of_trainer = {"args": None, "state": None, "control": None}
    callback.on_epoch_begin(**of_trainer)
    for step in range(FIRST, STEPS):
        titantrace.step(step)
        callback.on_step_begin(**of_trainer)
        for batch in range(2):
            with tracker.timer("fetching batch"):
                fetch(step)
            with tracker.timer("model forward"):
                time.sleep(0.004)
            if batch == 0:
                callback.on_substep_end(**of_trainer)
        with tracker.timer("optimizer step"):
            meet()
        callback.on_step_end(**of_trainer)
        titantrace.metric("train/loss", loss(step), reduce="mean")
    callback.on_epoch_end(**of_trainer)
    tracker.get_summaries_from_all_ranks()


warnings.simplefilter("ignore")
{"torchtitan": torchtitan, "one_logger": one_logger, "oumi": oumi}[SEED]()
