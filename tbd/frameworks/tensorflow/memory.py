def record(training, arrays): raise NotImplementedError
