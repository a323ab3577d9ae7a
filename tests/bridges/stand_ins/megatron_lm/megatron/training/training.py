"""The loop of Megatron-LM, whose package on PyPI has only megatron.core: what is called when, by which names."""
from .global_vars import get_args, get_timers, set_global_variables


def train_step(forward_step_func, data_iterator, model, optimizer, opt_param_scheduler, config, forward_backward_func,
               iteration=None, pg_collection=None):
    timers = get_timers()
    timers("forward-backward", log_level=1).start(barrier=get_args().barrier_with_L1_time)
    loss = forward_step_func(iteration)
    timers("forward-backward").stop()
    timers("optimizer", log_level=1).start(barrier=get_args().barrier_with_L1_time)
    timers("optimizer").stop()
    return {"lm loss": loss}, 0, False, False, 0, 0.5 * iteration, None


def training_log(loss_dict, total_loss_dict, learning_rate, iteration, loss_scale, report_memory_flag, skipped_iter,
                 grad_norm, params_norm, num_zeros_in_grad, max_attention_logit, pg_collection=None,
                 is_first_iteration=False):
    get_timers()("interval-time").elapsed(barrier=True)
    return False


def train(forward_step_func):
    args, timers = get_args(), get_timers()
    iteration, total_loss_dict, report_memory_flag, results = args.iteration, {}, True, []
    timers("interval-time", log_level=0).start(barrier=True)
    while iteration < args.train_iters:
        args.curr_iteration = iteration
        step = train_step(forward_step_func, None, [], None, None, None, None, iteration=iteration)
        iteration += 1
        report_memory_flag = training_log(step[0], total_loss_dict, 0.125, iteration, 1.0, report_memory_flag, step[1],
                                          step[5], float("nan"), step[6], None, is_first_iteration=True)
        results.append(step)
    timers("interval-time").stop()
    return results


def pretrain(forward_step_func, args):
    set_global_variables(args)
    return train(forward_step_func)
