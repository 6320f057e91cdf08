"""Learning-rate schedules: functions of the number t of calls of step() so far, from 0."""

import bisect
import math

from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

__all__ = [
    "ExponentialWarmupMultiStepLR",
    "LRLinearWarmUp",
    "MultiStepLRLinearWarmUp",
    "PolyDecayLRLinearWarmup",
    "ReduceLROnPlateauWithWarmup",
    "SQRTTimeDecayLR",
    "SQRTTimeDecayLRWithWarmup",
    "SparsifiedSGDLR",
    "TimeDecayLR",
]


class _Factors(LambdaLR):
    """The base rate times factor(t). The base rate is `base_lr`, or the optimizer's own."""

    def __init__(self, optimizer, base_lr=None):
        if base_lr is not None:
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] = base_lr
        super().__init__(optimizer, self.factor)

    def factor(self, t):
        raise NotImplementedError


class _WarmedUp(_Factors):
    """Linear from init_lr to scaled_lr within warmup_duration calls, then scaled_lr times decay(t)."""

    def __init__(self, optimizer, init_lr, scaled_lr, warmup_duration):
        self.init_lr, self.scaled_lr, self.warmup_duration = init_lr, scaled_lr, warmup_duration
        super().__init__(optimizer, scaled_lr)

    def factor(self, t):
        if t < self.warmup_duration:
            return (self.init_lr + (self.scaled_lr - self.init_lr) * t / self.warmup_duration) / self.scaled_lr
        return self.decay(t)

    def decay(self, t):
        return 1.0


class LRLinearWarmUp(_WarmedUp):
    """Linear from init_lr to scaled_lr, then constant."""

    @property
    def duration(self):
        return self.warmup_duration


class MultiStepLRLinearWarmUp(_WarmedUp):
    """Linear warm-up, then gamma to the power of the number of milestones that are reached."""

    def __init__(self, optimizer, gamma, milestones, scaled_lr, warmup_init_lr=0, warmup_duration=0):
        milestones = list(milestones)
        if milestones != sorted(milestones) or (milestones and warmup_duration >= milestones[0]):
            raise ValueError(
                "milestones are %s; expected increasing ones behind the warm-up of %s" % (milestones, warmup_duration)
            )
        self.gamma, self.milestones = gamma, milestones
        super().__init__(optimizer, warmup_init_lr, scaled_lr, warmup_duration)

    def decay(self, t):
        return self.gamma ** bisect.bisect_right(self.milestones, t)


class SQRTTimeDecayLRWithWarmup(_WarmedUp):
    """Linear warm-up of W calls, then base_lr * sqrt(W / t)."""

    def __init__(self, optimizer, base_lr, warmup_init_lr, warmup_steps):
        super().__init__(optimizer, warmup_init_lr, base_lr, warmup_steps)

    def decay(self, t):
        return math.sqrt(self.warmup_duration / t) if t else 1.0


class PolyDecayLRLinearWarmup(_WarmedUp):
    """Linear warm-up, then a polynomial that reaches min_lr after decay_steps more calls."""

    def __init__(self, optimizer, init_lr, scaled_lr, warmup_duration, decay_steps, min_lr=0, power=2):
        self.decay_steps, self.min_lr, self.power = decay_steps, min_lr, power
        super().__init__(optimizer, init_lr, scaled_lr, warmup_duration)

    def decay(self, t):
        progress = min(1.0, (t - self.warmup_duration) / self.decay_steps)
        least = (self.min_lr / self.scaled_lr) ** (1 / self.power)
        return (1 - progress + least * progress) ** self.power


class ExponentialWarmupMultiStepLR(_Factors):
    """0.01^((W - t) / W) for W calls, then 1; from remain_steps on times decay_factor for each decay_interval begun, at
    most decay_steps times. An int is a number of calls, a float a fraction of `iterations`. Without a decay_interval
    the decays share what is left of the iterations."""

    def __init__(
        self,
        optimizer,
        iterations,
        warmup_steps=0,
        remain_steps=1.0,
        decay_interval=None,
        decay_steps=4,
        decay_factor=0.5,
    ):
        def calls(given):
            return int(given * iterations) if isinstance(given, float) else given

        self.remain_steps, self.decay_steps, self.decay_factor = calls(remain_steps), decay_steps, decay_factor
        self.warmup_steps = min(calls(warmup_steps), self.remain_steps)
        if decay_interval is None:
            decay_interval = (iterations - self.remain_steps) // decay_steps
        self.decay_interval = max(1, calls(decay_interval))
        super().__init__(optimizer)

    def factor(self, t):
        if t < self.warmup_steps:
            return 0.01 ** ((self.warmup_steps - t) / self.warmup_steps)
        if t < self.remain_steps:
            return 1.0
        return self.decay_factor ** min(self.decay_steps, (t - self.remain_steps) // self.decay_interval + 1)


class SparsifiedSGDLR(_Factors):
    """gamma / l2_coef / max(1, t + shifting_param)."""

    def __init__(self, optimizer, gamma, l2_coef, shifting_param):
        self.shifting_param = shifting_param
        super().__init__(optimizer, gamma / l2_coef)

    def factor(self, t):
        return 1 / max(1, t + self.shifting_param)


class TimeDecayLR(_Factors):
    """lr / (t + beta)."""

    def __init__(self, optimizer, beta):
        self.beta = beta
        super().__init__(optimizer)

    def factor(self, t):
        return 1 / (t + self.beta)


class SQRTTimeDecayLR(_Factors):
    """lr / sqrt(max(1, t))."""

    def factor(self, t):
        return 1 / math.sqrt(max(1, t))


class ReduceLROnPlateauWithWarmup(ReduceLROnPlateau):
    """Linear from warmup_init_lr to scaled_lr, then PyTorch's ReduceLROnPlateau with the further options. The warm-up
    takes warmup_epochs calls of step(), or, with batches_per_epoch, that many calls of batch_step() per epoch."""

    def __init__(self, optimizer, warmup_init_lr, scaled_lr, warmup_epochs, batches_per_epoch=None, **options):
        self.warmup_init_lr, self.scaled_lr = warmup_init_lr, scaled_lr
        self.per_batch = batches_per_epoch is not None
        self.warmup_duration = warmup_epochs * (batches_per_epoch or 1)
        self.batch_idx = 0
        self._warm_up(optimizer)
        super().__init__(optimizer, **options)

    @property
    def finished_warmup(self):
        return self.batch_idx >= self.warmup_duration

    def batch_step(self):
        if not self.finished_warmup:
            self.batch_idx += 1
            self._warm_up(self.optimizer)

    def step(self, metrics, epoch=None):
        if self.finished_warmup:
            super().step(metrics)
        else:
            self.last_epoch += 1
            if not self.per_batch:
                self.batch_step()

    def _warm_up(self, optimizer):
        progress = 1.0 if self.finished_warmup else self.batch_idx / self.warmup_duration
        for group in optimizer.param_groups:
            group["lr"] = progress * self.scaled_lr + (1 - progress) * self.warmup_init_lr
