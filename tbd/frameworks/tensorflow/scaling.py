"""fp16's loss scaling (tbd/frameworks/base.py) as state on the device: nothing waits for it."""

import tensorflow as tf

from tbd.frameworks import base


class LossScale:
    """The scale, and how many updates in a row were applied and how many in all were left out."""

    def __init__(self):
        self.scale = tf.Variable(base.LOSS_SCALE, dtype=tf.float32, trainable=False)
        self.applied = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.left_out = tf.Variable(0, dtype=tf.int64, trainable=False)

    def unscaled(self, gradients):
        """(whether all are finite, the gradients divided by the scale: all zeros where any is not finite)."""
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
        factor = tf.where(finite, 1 / self.scale, 0)
        return finite, [tf.math.multiply_no_nan(g, factor) for g in gradients]

    def move(self, finite):
        """Grow or shrink the scale after an update whose gradients were `finite`."""
        applied = tf.where(finite, self.applied + 1, 0)
        grown = applied >= base.LOSS_SCALE_INTERVAL
        after = tf.where(grown, self.scale * base.LOSS_SCALE_GROWTH, self.scale)
        self.scale.assign(tf.where(finite, after, self.scale * base.LOSS_SCALE_BACKOFF))
        self.applied.assign(tf.where(grown, tf.zeros_like(applied), applied))
        self.left_out.assign_add(tf.where(finite, tf.zeros_like(applied), tf.ones_like(applied)))

    def read_left_out(self):
        """How many updates were left out since the last call. Waits."""
        count = int(self.left_out.numpy())
        self.left_out.assign(0)
        return count
