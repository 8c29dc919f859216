"""The stop rules of impls/contract.hpp, for variants whose loop is ours."""


class StopTest:
    """Counts passes and applies the problem's rule to them; one object per run."""

    def __init__(self, problem):
        self.rule = problem.rule
        self.threshold = problem.threshold
        self.most = problem.max_iterations
        self.passes = 0
        self.previous_loss = float("inf")

    def after_pass(self, loss=None, labels_changed=None, squared_shift=None):
        """Records one executed pass; true if it was the last. The pass that meets the rule counts.
        `loss`, `labels_changed` and `squared_shift` are functions, of which that of the rule is called.
        """
        self.passes += 1
        if self.rule == "loss":
            loss, before = loss(), self.previous_loss
            self.previous_loss = loss
        if self.passes >= self.most:
            return True
        if self.rule == "loss":
            return abs(loss - before) < self.threshold
        if self.rule == "labels":
            return not labels_changed()
        if self.rule == "shift":
            return squared_shift() <= self.threshold
        return False
