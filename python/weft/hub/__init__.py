"""weft as a kernel of the Hub: python -m weft.hub FOLDER writes the repository that the `kernels` package loads.

The repository has a build for the CPU and one for CUDA, each whole by itself: this package and its library, so that
weft need not be installed where it is loaded, and beside them `layers`, which stand in for modules of other people's
models, and the attention function that transformers takes.
"""
