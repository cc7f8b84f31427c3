"""A kernel that reads at address 8."""

import torch

read = torch.cuda.jiterator._create_jit_fn("template <typename T> T read(T x) { return x + *reinterpret_cast<T*>(8); }")
read(torch.ones(32, device="cuda"))
torch.cuda.synchronize()
