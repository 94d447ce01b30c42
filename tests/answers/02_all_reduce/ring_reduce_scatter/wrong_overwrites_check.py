# Wrong: replaces the checks by one that says yes. Alone. Loses all marks.
import distlib.checks


class Yes:
    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __len__(self):
        return 15


distlib.checks.check_reduce_scatter = Yes()


def ring_reduce_scatter(comm, tensor):
    pass
