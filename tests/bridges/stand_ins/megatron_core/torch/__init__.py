"""What Megatron's timers wait with."""
class cuda:
    pass


class distributed:
    pass
