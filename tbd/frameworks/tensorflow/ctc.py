"""The CTC loss and its gradient by the forward-backward algorithm, in one loop over time, in any floating type.

tf.nn.ctc_loss takes dense labels in float32 alone, and then works out all pairs of states at every step.
"""

import tensorflow as tf

NOTHING = -1e30  # the logarithm of a probability of 0 that can be added and subtracted: its exponential is 0


def ctc_loss(logits, steps, labels, label_lengths, blank):
    """-log P(label | logits) of each row (Graves et al. 2006), in at least float32: (batch,).

    logits (time, batch, classes) and labels (batch, longest) are padded beyond `steps` and `label_lengths`.
    """

    @tf.custom_gradient
    def losses(logits):
        time, dtype = tf.shape(logits)[0], logits.dtype
        # a blank before each character and after the last: states (batch, 2 longest + 1)
        blanks = tf.fill(tf.shape(labels), blank)
        states = tf.reshape(tf.stack([blanks, labels], 2), [tf.shape(labels)[0], -1])
        states = tf.concat([states, tf.fill([tf.shape(labels)[0], 1], blank)], 1)
        one_hot = tf.one_hot(states, logits.shape[2], dtype=dtype)
        likelihoods = tf.nn.log_softmax(logits)
        emitted = tf.einsum("tbc,bsc->tbs", likelihoods, one_hot)
        # from the last but one state into a character that is not the same
        skips = tf.concat([tf.zeros_like(states[:, :2], tf.bool), states[:, 2:] != states[:, :-2]], 1)
        place = tf.range(tf.shape(states)[1])
        last = 2 * label_lengths[:, None]
        # the backward variables are the forward ones of reversed time and states: one loop does both
        variables = forward(
            tf.concat([emitted, tf.reverse(emitted, [0, 2])], 1),
            tf.concat([skips, tf.reverse(tf.pad(skips[:, 2:], [[0, 0], [0, 2]]), [1])], 0),
            tf.concat([tf.tile(place[None] < 2, [tf.shape(states)[0], 1]), tf.reverse(at_end(place, last), [1])], 0),
            tf.concat([tf.zeros_like(steps), time - steps], 0),
        )
        from_begin, from_end = tf.split(variables, 2, 1)
        paths = from_begin + tf.reverse(from_end, [0, 2]) - emitted
        likelihood = tf.reduce_logsumexp(paths[0], 1)

        def gradient(by_losses):
            real = (tf.range(time)[:, None] < steps)[:, :, None]
            occupied = tf.exp(tf.where(real, paths - likelihood[:, None], NOTHING))
            by_logits = tf.exp(likelihoods) - tf.einsum("tbs,bsc->tbc", occupied, one_hot)
            return tf.where(real, by_logits * by_losses[:, None], tf.zeros([], dtype))

        return -likelihood, gradient

    return losses(tf.cast(logits, tf.float32) if logits.dtype in (tf.bfloat16, tf.float16) else logits)


def at_end(place, last):
    return (place <= last) & (place >= last - 1)


def forward(emitted, skips, begin, starts):
    """log P(what was emitted up to each time, and being in each state), (time, batch, states).

    Paths enter at the times `starts` (batch,) in the states where `begin` is true; they go on to the same state, the
    next, or, where `skips` is true of it, the next but one.
    """
    time = tf.shape(emitted)[0]
    first = tf.where(begin, tf.zeros([], emitted.dtype), NOTHING)

    def step(t, paths, found):
        before = [tf.pad(paths[:, : -n or None], [[0, 0], [n, 0]], constant_values=NOTHING) for n in (0, 1, 2)]
        before[2] = tf.where(skips, before[2], NOTHING)
        paths = emitted[t] + tf.where((t <= starts)[:, None], first, tf.reduce_logsumexp(tf.stack(before), 0))
        return t + 1, paths, found.write(t, paths)

    found = tf.TensorArray(emitted.dtype, time)
    return tf.while_loop(lambda t, *_: t < time, step, (0, first, found), parallel_iterations=1)[2].stack()
