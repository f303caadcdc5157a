"""Two more, in place of the two of planted.py that one CPU leaves device-bound.

In a file of their own: what was measured with planted.py as it is compares with no other version of it.
"""

from planted import conv

mobilenet_conv16 = conv("mobilenet_v2/conv16_1x1_64")
deepbench_040 = conv("deepbench_training/040")
